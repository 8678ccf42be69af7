#!/usr/bin/env bash
# Fetches Apache HDFS (servers, and the tools that come with them) from Maven Central: fetch.sh DIRECTORY VERSION
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
servers=$1 version=$2
if [ ! -e "$servers/.ok" ]; then
  rm -rf "$servers"
  mvn -q -B -f "$here/pom.xml" -Dhadoop.version="$version" dependency:copy-dependencies -DoutputDirectory="$servers/lib"
  mkdir -p "$servers/web"
  (cd "$servers/web" && python3 -m zipfile -e "$servers"/lib/hadoop-hdfs-*-tests.jar . && find . -mindepth 1 -maxdepth 1 ! -name webapps -exec rm -rf {} +)
  rm "$servers"/lib/*-tests.jar
  touch "$servers/.ok"
fi
