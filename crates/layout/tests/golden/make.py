#!/usr/bin/env python3
"""Write the golden files of this directory, and beside each what its own library says where the pieces are.

usage: make.py DIR                       needs uproot, awkward, numpy, pyarrow and polars
       make.py --orc DIR                 those of ORC alone: needs pyarrow
       make.py --with-root DIR           those that ROOT itself writes: needs numpy and ROOT of PyPI
                                         (`pip install --pre root`); then --texts, and --holes for root-long.root
       make.py --texts FILE...           write what uproot or pyarrow says beside each file
       make.py --holes FILE...           make parts of files with holes
       make.py --describe FILE...        print what uproot or pyarrow says of a file; needs uproot and pyarrow

The text has the form that `cargo run --example layout_of` prints: a line for each table with its entries, for each
column, and for each piece its first entry, place and length. A file NAME.parts is one with holes: each part is its
place and length, both 8 bytes, little-endian, and its bytes.
"""
import json
import os
import struct
import sys

QUOTED = lambda text: json.dumps(text, ensure_ascii=False)


def line_of_path(path, name):
    """As the layout joins the names of branches within each other."""
    path = path.rstrip(".")
    if not path or name.startswith(path + "."):
        return name
    return f"{path}.{name}"


def branches_of(branch, path, lines, tree_key):
    name = line_of_path(path, branch.name)
    count = branch.num_baskets
    pieces, seeks = [], branch.member("fBasketSeek")
    lens, firsts = branch.member("fBasketBytes"), branch.member("fBasketEntry")
    written = 0
    while written < min(branch.member("fWriteBasket"), len(seeks)) and seeks[written] != 0:
        first = int(firsts[written])
        if pieces and pieces[-1][0] == first:
            pieces.pop()
        pieces.append((first, int(seeks[written]), int(lens[written])))
        written += 1
    if count > written:
        # Within the tree: uproot numbers them behind the others.
        pieces.append((int(branch.entry_offsets[written]), *tree_key))
    at = len(lines)
    lines.append(f"column {QUOTED(name)}")
    lines.extend(" ".join(map(str, piece)) for piece in pieces)
    for inner in branch.branches:
        branches_of(inner, name, lines, tree_key)
    if not pieces and len(lines) > at + 1:
        del lines[at]


def describe_root(path):
    import uproot

    lines = []

    def ntuple(ntuple, name):
        """A piece is a page, if its field is of the first level and has one column; else all pages of a cluster."""
        fields, columns = ntuple.field_records, ntuple.column_records
        lines.append(f"table {QUOTED(name)} {ntuple.num_entries}")

        def path(number):
            above = fields[number].parent_field_id
            return fields[number].field_name if above == number else f"{path(above)}.{fields[number].field_name}"

        for number in dict.fromkeys(column.field_id for column in columns):
            lines.append(f"column {QUOTED(path(number))}")
            own = [at for at, column in enumerate(columns) if column.field_id == number]
            is_even = len(own) == 1 and fields[number].parent_field_id == number
            for summary, cluster in zip(ntuple.cluster_summaries, ntuple.page_link_list):
                first, spans = summary.num_first_entry, []
                for page in [page for at in own for page in cluster[at].pages]:
                    # A checksum stands behind the page.
                    size = page.locator.num_bytes + 8 * page.has_checksum
                    spans.append((first, page.locator.offset, size))
                    first += page.num_elements if is_even else 0
                if not is_even:
                    spans.sort(key=lambda span: span[1])
                    for at in reversed(range(1, len(spans))):
                        if spans[at - 1][1] + spans[at - 1][2] == spans[at][1]:
                            spans[at - 1] = (first, spans[at - 1][1], spans[at - 1][2] + spans.pop(at)[2])
                lines.extend(" ".join(map(str, span)) for span in spans)

    def directory(place, prefix):
        newest, order = {}, []
        for name in place.keys(recursive=False):
            plain, cycle = name.rsplit(";", 1)
            if plain not in order:
                order.append(plain)
            newest[plain] = max(int(cycle), newest.get(plain, 0))
        inner = []
        for plain in order:
            key = place.key(f"{plain};{newest[plain]}")
            if key.fClassName in ("TTree", "TNtuple", "TNtupleD"):
                tree = place[f"{plain};{newest[plain]}"]
                lines.append(f"table {QUOTED(prefix + plain)} {tree.num_entries}")
                for branch in tree.branches:
                    branches_of(branch, "", lines, (key.fSeekKey, key.fNbytes))
            elif key.fClassName == "ROOT::RNTuple":
                ntuple(place[f"{plain};{newest[plain]}"], prefix + plain)
            elif key.fClassName in ("TDirectory", "TDirectoryFile"):
                inner.append(plain)
        for plain in inner:
            directory(place[plain], f"{prefix}{plain}/")

    with uproot.open(path) as file:
        directory(file, "")
    return lines


def varint_at(data, at):
    """A number of seven bits a byte, the lowest first, and where it ends."""
    number, shift = 0, 0
    while True:
        byte = data[at]
        at += 1
        number |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return number, at


def thrift(data, at):
    """A struct in Thrift's compact protocol, as a dict by field numbers, and where it ends."""

    def varint():
        nonlocal at
        number, at = varint_at(data, at)
        return number

    def value(kind):
        nonlocal at
        if kind in (1, 2):
            return kind == 1
        if kind == 3:
            at += 1
            return data[at - 1]
        if kind in (4, 5, 6):
            number = varint()
            return (number >> 1) ^ -(number & 1)
        if kind == 8:
            size = varint()
            at += size
            return data[at - size : at]
        if kind == 12:
            return struct_()
        raise ValueError(f"type {kind} in the head of a page")

    def struct_():
        nonlocal at
        fields, number = {}, 0
        while data[at]:
            head = data[at]
            at += 1
            assert head >> 4, "page heads have no long field numbers"
            number += head >> 4
            fields[number] = value(head & 15)
        at += 1
        return fields

    return struct_(), at


def pages_of(data, begin, end, first):
    """From the heads of the pages themselves, not from any list of them."""
    at = begin
    while at < end:
        head, body = thrift(data, at)
        size = body - at + head[3]
        yield first, at, size
        # A dictionary has no rows; a page of version 2 says how many, one of version 1 has as many as values here.
        first += head[8][3] if 8 in head else head[5][1] if 5 in head else 0
        at += size


def describe_parquet(path):
    import pyarrow.parquet as parquet

    metadata, data = parquet.ParquetFile(path).metadata, open(path, "rb").read()
    lines = [f'table "" {metadata.num_rows}']
    for column in range(metadata.num_columns):
        lines.append(f"column {QUOTED(metadata.schema.column(column).path)}")
        first = 0
        for group in range(metadata.num_row_groups):
            chunk = metadata.row_group(group).column(column)
            begin = min(chunk.dictionary_page_offset or chunk.data_page_offset, chunk.data_page_offset)
            pieces = [(first, begin, chunk.total_compressed_size)]
            if chunk.has_offset_index:
                pieces = pages_of(data, begin, begin + chunk.total_compressed_size, first)
            lines.extend(" ".join(map(str, piece)) for piece in pieces)
            first += metadata.row_group(group).num_rows
    return lines


def describe_arrow(path):
    """Where the buffers of each column are in the mapped file: pyarrow tells their addresses."""
    import pyarrow
    import pyarrow.ipc

    mapped = pyarrow.memory_map(path)
    reader = pyarrow.ipc.open_file(mapped)
    base = mapped.read_buffer(1).address if mapped.seek(0) == 0 else 0
    lines, columns, first = [], [[] for _ in reader.schema], 0
    for number in range(reader.num_record_batches):
        batch = reader.get_batch(number)
        for pieces, column in zip(columns, batch.columns):
            # Of a dictionary only the indices are in the batch.
            column = column.indices if pyarrow.types.is_dictionary(column.type) else column
            buffers = [buffer for buffer in column.buffers() if buffer is not None and buffer.size]
            if buffers and batch.num_rows:
                begin = min(buffer.address for buffer in buffers) - base
                end = max(buffer.address + buffer.size for buffer in buffers) - base
                pieces.append(f"{first} {begin} {end - begin}")
        first += batch.num_rows
    lines.append(f'table "" {first}')
    for name, pieces in zip(reader.schema.names, columns):
        lines += [f"column {QUOTED(name)}", *pieces]
    return lines


def protobuf(data):
    """A message, as a dict of lists by field numbers."""
    fields, at = {}, 0

    def varint():
        nonlocal at
        number, at = varint_at(data, at)
        return number

    while at < len(data):
        head = varint()
        size = {0: lambda: 0, 1: lambda: 8, 2: varint, 5: lambda: 4}[head & 7]()
        fields.setdefault(head >> 3, []).append(data[at : at + size] if head & 7 else varint())
        at += size
    return fields


def reads_of_orc(data, columns):
    """Which bytes pyarrow reads for some columns, stripe by stripe, without the end of the file."""
    import io

    import pyarrow.orc

    class Watched(io.BytesIO):
        def read(self, size=-1):
            at, found = self.tell(), super().read(size)
            reads.append((at, len(found)))
            return found

    reads = []
    file = pyarrow.orc.ORCFile(Watched(data))
    for stripe in range(file.nstripes):
        reads.clear()
        yield file.read_stripe(stripe, columns=columns).num_rows, sorted(reads)


def merged(spans):
    runs = []
    for offset, size in sorted(set(spans)):
        if runs and runs[-1][0] + runs[-1][1] == offset:
            runs[-1] = (runs[-1][0], runs[-1][1] + size)
        else:
            runs.append((offset, size))
    return runs


def orc_by_reads(data, names):
    """Of columns that are not nested: what pyarrow reads of each, and of all of them."""
    read = [list(reads_of_orc(data, [name])) for name in names]
    pieces, first = [[] for _ in range(len(names) + 1)], 0
    for stripes in zip(*read):
        footer = set.intersection(*(set(reads) for _, reads in stripes))
        assert len(footer) == 1
        pieces[0] += [(first, *span) for span in footer]
        for own, (_, reads) in zip(pieces[1:], stripes):
            own += [(first, *span) for span in merged(set(reads) - footer)]
        first += stripes[0][0]
    return first, pieces


def orc_by_streams(data):
    """Of any columns, if nothing is compressed: their names, and what the footers of the stripes say."""
    postscript = protobuf(data[-1 - data[-1] : -1])
    end = len(data) - 1 - data[-1]
    footer = protobuf(data[end - postscript[1][0] : end])
    types = [protobuf(one) for one in footer[4]]
    assert max(map(len, footer[4])) < 128 and len(types) < 128, "children are packed numbers of one byte"
    names = ["(stripe footers)"] + [""] * (len(types) - 1)
    for number, one in enumerate(types):
        inner = {10: ["_elem"], 11: ["_key", "_value"], 12: [name.decode() for name in one.get(3, [])]}
        children = list(b"".join(one.get(2, [])))
        for place, child in enumerate(children):
            own = inner.get(one[1][0], list(map(str, range(len(children)))))[place]
            names[child] = f"{names[number]}.{own}" if number else own
    pieces, first = [[] for _ in types], 0
    for stripe in map(protobuf, footer[3]):
        at = stripe[1][0]
        end = at + stripe[2][0] + stripe[3][0]
        pieces[0].append((first, end, stripe[4][0]))
        spans = [[] for _ in types]
        for stream in protobuf(data[end : end + stripe[4][0]])[1]:
            stream = protobuf(stream)
            kind, column, size = (stream.get(field, [0])[0] for field in (1, 2, 3))
            if size and kind not in (6, 7, 8):
                spans[column].append((at, size))
            at += size
        for own, of_column in zip(pieces, spans):
            own += [(first, *span) for span in merged(of_column)]
        first += stripe[5][0]
    return first, names, pieces


def describe_orc(path):
    import pyarrow.orc

    data, file = open(path, "rb").read(), pyarrow.orc.ORCFile(path)
    if file.compression == "UNCOMPRESSED":
        entries, names, pieces = orc_by_streams(data)
        # And that is what pyarrow reads of each column, with all that is within it.
        for name in file.schema.names:
            reads = [span for _, reads in reads_of_orc(data, [name]) for span in reads]
            own = [at for at, other in enumerate(names) if at == 0 or f"{other}.".startswith(f"{name}.")]
            assert merged(reads) == merged([span[1:] for at in own for span in pieces[at]]), name
    else:
        names = file.schema.names
        entries, pieces = orc_by_reads(data, names)
        names = ["(stripe footers)", *names]
    lines = [f'table "" {entries}']
    for name, own in zip(names, pieces):
        lines += [f"column {QUOTED(name)}", *(" ".join(map(str, piece)) for piece in own)]
    return lines


def describe(path):
    magic = open(path, "rb").read(4)
    known = {b"root": describe_root, b"ARRO": describe_arrow, b"PAR1": describe_parquet}
    return known.get(magic, describe_orc)(path)


def compress_holes(path):
    """A file with holes as its parts."""
    with open(path, "rb") as file, open(path + ".parts", "wb") as out:
        end, at = os.path.getsize(path), 0
        while at < end:
            try:
                begin = os.lseek(file.fileno(), at, os.SEEK_DATA)
            except OSError:
                break
            at = os.lseek(file.fileno(), begin, os.SEEK_HOLE)
            file.seek(begin)
            data = file.read(at - begin)
            # The rest of the pages that the parts lie in.
            lead = len(data) - len(data.lstrip(b"\0"))
            data = data[lead:].rstrip(b"\0") + bytes(4)
            data = data[: end - begin - lead]
            out.write(struct.pack("<QQ", begin + lead, len(data)) + data)
        out.write(struct.pack("<QQ", end, 0))
    os.remove(path)


def write(directory, name, make):
    path = os.path.join(directory, name)
    make(path)
    with open(path + ".txt", "w") as out:
        out.write("\n".join(describe(path)) + "\n")


def with_uproot(directory):
    import awkward
    import numpy
    import uproot

    def columns(begin, end):
        return {
            "i": numpy.arange(begin, end, dtype="i4"),
            "e": numpy.arange(begin, end, dtype="f8") / 7,
            "v": numpy.arange(4 * begin, 4 * end, dtype="f4").reshape(-1, 4),
        }

    def flat(compression):
        def make(path):
            with uproot.recreate(path, compression=compression) as file:
                tree = file.mktree("T", {"i": "i4", "e": "f8", "v": ("f4", (4,))}, initial_basket_capacity=4)
                for begin in range(0, 300, 100):
                    tree.extend(columns(begin, begin + 100))

        return make

    write(directory, "uproot-flat.root", flat(uproot.ZLIB(9)))

    def nested(path):
        with uproot.recreate(path, compression=uproot.LZ4(5)) as file:
            file.mktree("top", {"x": "i4"}, initial_basket_capacity=2).extend({"x": numpy.arange(5, dtype="i4")})
            jets = awkward.Array([[{"pt": 1.5, "n": 1}, {"pt": 2.5, "n": 2}], [], [{"pt": 3.5, "n": 3}]])
            tree = file.mktree("one/two/jets", {"jet": jets.type.content}, initial_basket_capacity=4)
            tree.extend({"jet": jets})
            tree.extend({"jet": jets})
            file["empty/marker"] = "no tree"
            file.mktree("nothing", {"x": "i4"}, initial_basket_capacity=1)

    write(directory, "uproot-nested.root", nested)

    def ntuple(path):
        def rows(count):
            jets = awkward.Array([[{"pt": 1.5, "n": jet} for jet in range(row % 3)] for row in range(count)])
            return {"i": numpy.arange(count), "s": [f"t{row % 7}" for row in range(count)], "jets": jets}

        # Not compressed, so that it can be fuzzed.
        with uproot.recreate(path, compression=None) as file:
            file.mkrntuple("one/ntuple", rows(50)).extend(rows(30))

    write(directory, "uproot-ntuple.root", ntuple)


def with_arrow(directory):
    import polars
    import pyarrow
    import pyarrow.parquet as parquet

    table = pyarrow.table({
        "a": list(range(90)),
        "b": [[float(row)] * (row % 3) for row in range(90)],
        "c": [f"text {row % 4}" for row in range(90)],
        "d": [{"x": row, "y": {"z": row % 2 == 0}} for row in range(90)],
    })
    chunks = lambda path: parquet.write_table(table, path, row_group_size=40, compression="snappy")
    write(directory, "pyarrow-chunks.parquet", chunks)

    # Of version 2, whose pages say how many rows they have.
    pages = lambda path: parquet.write_table(
        table, path, row_group_size=50, write_page_index=True, data_page_size=64, write_batch_size=8,
        data_page_version="2.0",
    )
    write(directory, "pyarrow-pages.parquet", pages)

    def arrow(path):
        columns = table.append_column("e", pyarrow.array([None, 1] * 45)).append_column("f", pyarrow.nulls(90))
        columns = columns.append_column("u", pyarrow.array(["a", "b"] * 45).cast(pyarrow.string_view()))
        with pyarrow.ipc.new_file(path, columns.schema) as out:
            out.write_table(columns, max_chunksize=40)

    write(directory, "pyarrow.arrow", arrow)

    numbers, texts = pyarrow.array([1, 2]), pyarrow.array(["a", "b"])
    kinds, places = pyarrow.array([0, 1], pyarrow.int8()), pyarrow.array([0, 1], pyarrow.int32())
    unions = pyarrow.table({
        "sparse": pyarrow.UnionArray.from_sparse(kinds, [numbers, texts]),
        "dense": pyarrow.UnionArray.from_dense(kinds, places, [numbers, texts]),
        "behind": pyarrow.array([7, None]),
    })
    # Before V5 unions had one buffer more.
    for version in [pyarrow.ipc.MetadataVersion.V4, pyarrow.ipc.MetadataVersion.V5]:
        def union(path):
            options = pyarrow.ipc.IpcWriteOptions(metadata_version=version)
            with pyarrow.ipc.new_file(path, unions.schema, options=options) as out:
                out.write_table(unions)

        write(directory, f"pyarrow-unions-{version.name.lower()}.arrow", union)

    columns = {"a": range(40), "s": [f"s{row % 5}" for row in range(40)], "f": [row / 3 for row in range(40)]}
    frame = polars.DataFrame(columns)
    write(directory, "polars.parquet", lambda path: frame.write_parquet(path, row_group_size=16))


def with_orc(directory):
    import pyarrow
    import pyarrow.orc

    def stripes(table, compression):
        # Batches as short as the writer looks at its stripes, so that there are some, if nothing is compressed.
        options = {"stripe_size": 1024, "batch_size": 50, "compression": compression}
        return lambda path: pyarrow.orc.write_table(table, path, **options)

    rows = range(150)
    nested = pyarrow.table({
        "a": pyarrow.array([None if row % 5 == 0 else row * 1000 for row in rows]),
        "text": [f"text {row % 4}" for row in rows],
        "list": [[float(row)] * (row % 3) for row in rows],
        "one": [{"x": row, "two": {"z": row % 2 == 0, "ä": str(row)}} for row in rows],
        "map": pyarrow.array([[(row % 7, row)] for row in rows], pyarrow.map_(pyarrow.int32(), pyarrow.int64())),
        "nothing": pyarrow.nulls(150, pyarrow.int8()),
    })
    write(directory, "pyarrow-nested.orc", stripes(nested, "uncompressed"))
    # So long that its end, which is read first, does not hold all of it.
    long = pyarrow.table({"a": list(range(2000)), "e": [row / 7 for row in range(2000)]})
    write(directory, "pyarrow-long.orc", stripes(long, "uncompressed"))
    flat = pyarrow.table({
        "a": list(rows), "e": [row / 7 for row in rows], "text": [f"text {row % 4}" for row in rows],
        **{f"column number {number}": [number] * 150 for number in range(20)},
    })
    for compression in ["zlib", "snappy", "lz4", "zstd"]:
        write(directory, f"pyarrow-{compression}.orc", stripes(flat, compression))


def tree_of_numbers(ROOT, numpy):
    made = ROOT.TTree("numbers", "T")
    number, three, values = numpy.zeros(1, dtype="i4"), numpy.zeros(3), ROOT.std.vector["float"]()
    made.Branch("number", number, "number/I")
    made.Branch("three", three, "three[3]/D")
    made.Branch("values", values)
    for row in range(600):
        number[0], three[row % 3] = row, row / 7
        values.clear()
        for more in range(row % 4):
            values.push_back(more / (row + 1))
        made.Fill()
    return made


def with_root(directory):
    import numpy
    import ROOT

    def tree(name, title="T", rows=60, baskets=300, flush=20):
        made = ROOT.TTree(name, title)
        made.SetAutoFlush(flush)
        number, vector, values = numpy.zeros(1, dtype="i4"), ROOT.TLorentzVector(), ROOT.std.vector["float"]()
        made.Branch("number", number, "number/I", baskets)
        # Split: branches in branches, with and without the name of the outer one.
        made.Branch("vector.", vector, baskets, 99)
        array = ROOT.TClonesArray("TVector2")
        made.Branch("array", array, baskets, 99)
        made.Branch("values", values, baskets)
        text = ROOT.std.string()
        made.Branch("text", text)
        for row in range(rows):
            number[0] = row
            vector.SetPxPyPzE(row, row / 2, row / 3, row / 4)
            values.clear()
            array.Clear()
            for more in range(row % 4):
                values.push_back(more)
                array.ConstructedAt(more)
            text.assign("t" * (row % 5))
            made.Fill()
        return made

    def file(path, level, big=False):
        made = ROOT.TFile(path, "RECREATE", "", level)
        if big:
            # Whatever is written from here on lies behind four GiB: the file has a hole.
            made.GetListOfFree().Last().SetFirst(5 << 30)
        return made

    def compressed(path, level, big=False):
        out = file(path, level, big)
        for name in ["first", "second"]:
            made = tree(name)
            made.Write()
        inner = out.mkdir("inner").mkdir("deeper")
        inner.cd()
        ntuple = ROOT.TNtuple("ntuple", "of floats", "a:b:c")
        for row in range(50):
            ntuple.Fill(row, row / 2, row / 3)
        # Two cycles.
        ntuple.Write()
        ntuple.Fill(1, 2, 3)
        ntuple.Write()
        out.Close()

    made = []
    for name, level in [("zlib", 101), ("lzma", 207), ("lz4", 404), ("zstd", 505)]:
        path = os.path.join(directory, f"root-{name}.root")
        compressed(path, level)
        made.append(path)
    path = os.path.join(directory, "root-ntuple.root")
    source = path + ".tree"
    out = file(source, 505)
    tree_of_numbers(ROOT, numpy).Write()
    out.Close()
    importer = ROOT.Experimental.RNTupleImporter.Create(source, "numbers", path)
    options = importer.GetWriteOptions()
    options.SetInitialUnzippedPageSize(64)
    options.SetMaxUnzippedPageSize(1000)
    options.SetApproxZippedClusterSize(4000)
    options.SetMaxUnzippedClusterSize(8000)
    importer.SetWriteOptions(options)
    importer.Import()
    os.remove(source)
    made.append(path)
    path = os.path.join(directory, "root-long.root")
    compressed(path, 505, big=True)
    made.append(path)
    print("describe with uproot:", *made)


if __name__ == "__main__":
    if sys.argv[1] == "--describe":
        for path in sys.argv[2:]:
            print("\n".join(describe(path)))
    elif sys.argv[1] == "--texts":
        for path in sys.argv[2:]:
            with open(path + ".txt", "w") as out:
                out.write("\n".join(describe(path)) + "\n")
    elif sys.argv[1] == "--holes":
        for path in sys.argv[2:]:
            compress_holes(path)
    elif sys.argv[1] == "--orc":
        with_orc(sys.argv[2])
    elif sys.argv[1] == "--with-root":
        with_root(sys.argv[2])
    else:
        with_uproot(sys.argv[1])
        with_arrow(sys.argv[1])
        with_orc(sys.argv[1])
