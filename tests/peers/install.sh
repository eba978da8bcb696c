# Sourced by cmake/setup.sh. install_peers: a virtual environment in which Python imports the very
# wheel whose libtorch the worker links.

# What `import torch` and its optimizers need of the wheel's own requirements.
peer_wheels="filelock==3.20.0 fsspec==2025.10.0 jinja2==3.1.6 markupsafe==3.0.3 mpmath==1.3.0
  networkx==3.4.2 sympy==1.14.0 typing-extensions==4.15.0"
peers_dir=$torch_dir-peers

install_peers() {
  (
    flock 9
    [ -e "$peers_dir/.complete" ] || make_peers
  ) 9>"$deps_dir/lock"
}

make_peers() {
  echo "Installing PyTorch's Python requirements into $peers_dir (30 MB, a minute)"
  rm -rf "$peers_dir"
  "$python" -m venv --without-pip "$peers_dir"
  pip --python "$peers_dir/bin/python" install --only-binary=:all: --no-deps $peer_wheels
  site=$("$peers_dir/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
  echo "$torch_dir" >"$site/torch.pth"
  if ! [ -e "$torch_dir/.gpu-complete" ]; then
    stand_in_for_cuda
  fi
  touch "$peers_dir/.complete"
}

# The wheel does not load without all of CUDA, of which a CPU never calls anything. So there are
# empty libraries of those names, and one with functions of the names that are asked for, which trap.
# That one is apart, because ld.so insists on versions in a library that it knows by name.
stand_in_for_cuda() {
  stand_ins=$peers_dir/lib/cuda-stand-ins
  mkdir -p "$stand_ins"
  libraries="$torch_dir/torch/lib/*.so*"
  here="$libraries $torch_dir/nvidia/cu13/lib/*.so*"
  nm -D --defined-only $here 2>/dev/null | sed -n 's/^[0-9a-f]* . \([a-z][A-Za-z0-9_]*\).*/\1/p' |
    sort -u >"$stand_ins/defined"
  nm -D --undefined-only $libraries | sed -n 's/^ *U \(\(cu\|nv\|nccl\)[A-Za-z0-9_]*\).*/\1/p' |
    sort -u | comm -23 - "$stand_ins/defined" |
    sed 's/.*/void &(void) { __builtin_trap(); }/' >"$stand_ins/functions.c"
  cc -w -shared -fPIC -nostdlib -o "$stand_ins/functions.so" "$stand_ins/functions.c"
  readelf -d $libraries | sed -n 's/.*(NEEDED).*\[\(lib\(cu\|nv\|nccl\).*\)\]/\1/p' | sort -u |
    while read -r name; do
      [ -e "$torch_dir/nvidia/cu13/lib/$name" ] ||
        cc -shared -nostdlib -Wl,--no-as-needed,-soname,"$name" "$stand_ins/functions.so" \
          -o "$stand_ins/$name"
    done
  cat >"$site/cuda_stand_ins.py" <<END
import ctypes, glob
for library in glob.glob("$stand_ins/lib*"):
    ctypes.CDLL(library)
END
  echo "import cuda_stand_ins" >"$site/cuda_stand_ins.pth"
}
