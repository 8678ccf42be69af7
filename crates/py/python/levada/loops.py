"""How an event loop waits for calls: `await call`.

No thread of the client runs Python: one that did while Python ends would be killed by it, and the process with it. What
a call ended with lies in the mailbox of its event loop, which watches the mailbox's descriptor and takes all that is
there in one step.
"""

from __future__ import annotations

from weakref import WeakValueDictionary

from levada import _levada

TYPE_CHECKING = False
if TYPE_CHECKING:
    from asyncio import AbstractEventLoop, Future
    from collections.abc import Generator
    from typing import Any, TypeVar

    _T = TypeVar("_T")


class _Waiting:
    """The calls that one event loop waits for. The loop holds it until it is closed, as who watches the descriptor."""

    def __init__(self, loop: AbstractEventLoop):
        self.loop = loop
        self.mailbox = _levada.Mailbox()
        self.futures: dict[int, Future[Any]] = {}
        try:
            loop.add_reader(self.mailbox.fileno(), self.settle)
        except NotImplementedError:
            raise RuntimeError(
                f"{type(loop).__name__} cannot watch a descriptor (add_reader): "
            "wait for calls in a thread (call.wait), "
                "or in another event loop"
            ) from None

    def settle(self) -> None:
        for number, value, error in self.mailbox.take():
            future = self.futures.pop(number)
            # Cancelled: what came of the call is dropped.
            if future.done():
                continue
            if error is None:
                future.set_result(value)
            else:
                future.set_exception(error)


# By the loop's id: no other loop can have that as long as the value is there, which holds the loop.
_WAITING: WeakValueDictionary[int, _Waiting] = WeakValueDictionary()


def _await(call: _levada.Call[_T]) -> Generator[Any, None, _T]:
    # Whoever awaits has imported it; who does not, need not.
    from asyncio import get_running_loop

    loop = get_running_loop()
    waiting = _WAITING.get(id(loop))
    if waiting is None:
        waiting = _WAITING[id(loop)] = _Waiting(loop)
    begun = waiting.mailbox.begin(call)
    future = waiting.futures[begun.number] = loop.create_future()
    try:
        return (yield from future)
    except BaseException:
        begun.abort()
        raise


# Not in the module of Rust: what makes and settles futures must not run below one of its frames, as other threads of
# Python's are killed, too.
setattr(_levada.Call, "__await__", _await)
