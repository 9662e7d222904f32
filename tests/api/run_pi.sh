#!/bin/sh
# Runs the example with 3 ranks and looks at what rank 0 prints.
directory=$(mktemp -d)
trap 'rm -rf "$directory"' EXIT
"$1" "$directory" 1 3 & one=$!
"$1" "$directory" 2 3 & two=$!
output=$("$1" "$directory" 0 3) || exit 1
wait $one || exit 1
wait $two || exit 1
echo "$output"
case "$output" in "pi is about 3.14159265359"*) exit 0 ;; *) exit 1 ;; esac
