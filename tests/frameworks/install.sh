# Sourced by cmake/setup.sh. install_frameworks: a virtual environment with real training frameworks
# on top of that of the peers, and so of the very torch wheel whose libtorch the worker links.

# transformers, accelerate and deepspeed, what they import, and what builds deepspeed and the small
# operator that it compiles at its first start.
framework_wheels="accelerate==1.15.0 annotated-types==0.8.0 anyio==4.16.0 click==8.5.1 einops==0.8.2 filelock==4.3.1
  fsspec==2026.9.0 h11==0.16.0 hf-xet==1.8.0 hjson==3.1.0 httpcore2==2.16.2 httpx2==2.16.2 huggingface_hub==2.4.0
  idna==3.20 msgpack==1.2.4 ninja==1.13.2 numpy==2.4.6 packaging==26.4 psutil==7.2.2 py-cpuinfo==9.0.0
  pydantic==2.14.4 pydantic_core==2.50.5 pyyaml==6.0.4 regex==2026.11.19 safetensors==0.8.0 setuptools==81.0.0
  tokenizers==0.23.3 tqdm==4.70.1 transformers==5.23.0 truststore==0.10.5 typing-inspection==0.4.5
  typing_extensions==4.16.0 wheel==0.48.0"
adapters_wheel="peft==0.21.2"
deepspeed_source="deepspeed==0.19.8"
frameworks_dir=$torch_dir-frameworks

install_frameworks() {
  install_peers
  (
    flock 9
    [ -e "$frameworks_dir/.complete" ] || make_frameworks
    [ -e "$frameworks_dir/.adapters" ] || add_adapters
    [ -x "$frameworks_dir/bin/torchrun" ] || make_torchrun
    [ -e "$frameworks_dir/extensions/.complete" ] || make_extensions
  ) 9>"$deps_dir/lock"
}

make_frameworks() {
  echo "Installing transformers, accelerate and DeepSpeed into $frameworks_dir (260 MB, a minute)"
  rm -rf "$frameworks_dir"
  "$python" -m venv --without-pip "$frameworks_dir"
  purelib='import sysconfig; print(sysconfig.get_path("purelib"))'
  # addsitedir, so that the peers' own .pth files count: they name the wheel.
  echo "import site; site.addsitedir('$("$peers_dir/bin/python" -c "$purelib")')" \
    >"$("$frameworks_dir/bin/python" -c "$purelib")/peers.pth"
  pip --python "$frameworks_dir/bin/python" install --only-binary=:all: --no-deps $framework_wheels
  # There is no wheel of it. Its operators are compiled when they are used.
  DS_BUILD_OPS=0 pip --python "$frameworks_dir/bin/python" install --no-deps --no-build-isolation $deepspeed_source
  touch "$frameworks_dir/.complete"
}

# LoRA's, for an environment that was made without them too.
add_adapters() {
  pip --python "$frameworks_dir/bin/python" install --only-binary=:all: --no-deps $adapters_wheel
  touch "$frameworks_dir/.adapters"
}

# As the wheel's own entry point, which pip writes only where it installs the wheel.
make_torchrun() {
  printf '#!%s\nfrom torch.distributed.run import main\n\nmain()\n' "$frameworks_dir/bin/python" >"$frameworks_dir/bin/torchrun"
  chmod +x "$frameworks_dir/bin/torchrun"
}

# The operator that DeepSpeed's first start on a CPU compiles, for half a minute. A start that is ended meanwhile
# leaves a lock behind, for which every later one waits.
make_extensions() {
  echo "Compiling DeepSpeed's operator for CPU ranks"
  rm -rf "$frameworks_dir/extensions"
  PATH=$frameworks_dir/bin:$PATH TORCH_EXTENSIONS_DIR=$frameworks_dir/extensions DS_ACCELERATOR=cpu "$frameworks_dir/bin/python" \
    -c 'from deepspeed.ops.op_builder.cpu import ShareMemCommBuilder as Builder; Builder().load()' >/dev/null 2>&1
  touch "$frameworks_dir/extensions/.complete"
}
