# ./dev demo: one study from nothing to a launch command, which is then run.
set -eu
folder=build/demo
rm -rf "$folder"
mkdir -p "$folder"
PATH=$PWD/build/bin:$PATH

echo "==> planwright tune docs/demo/demo.toml"
planwright tune docs/demo/demo.toml --storage "$folder/demo.db"

echo "==> planwright emit docs/demo/demo.toml"
planwright emit docs/demo/demo.toml --storage "$folder/demo.db" --out "$folder" >"$folder/launch.sh"

echo "==> what it emitted: $(cat "$folder/launch.sh")"
sh "$folder/launch.sh"
