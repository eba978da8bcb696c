# Sourced by ./dev. set_up [worker] [peers] [frameworks] [checks] installs what is missing and nothing
# else; when nothing is, it takes a fraction of a second and never touches the network.

build_packages="ca-certificates cmake g++ git libbenchmark-dev libceres-dev libcxxopts-dev libeigen3-dev
  libfmt-dev libgmock-dev libgtest-dev libsqlite3-dev libsqlitecpp-dev libtomlplusplus-dev libyaml-cpp-dev
  ninja-build nlohmann-json3-dev python3"
worker_packages="python3-pip"
# DeepSpeed compiles an operator against Python's headers.
framework_packages="python3-dev"
check_packages="clang clang-format clang-tidy libclang-rt-dev libomp-dev"

torch_version=2.11.0
# libtorch_cpu of the CUDA build needs these two even where there is no GPU.
cpu_wheels="torch==$torch_version nvidia-cuda-runtime==13.0.96 nvidia-cuda-cupti==13.0.85"
# Headers alone suffice to build the CUDA worker; nobody depends on the last two but those headers.
nccl_version=2.28.9
header_wheels="nvidia-cublas==13.1.0.3 nvidia-cusolver==12.0.4.66 nvidia-cusparse==12.6.3.3
  nvidia-nccl-cu13==$nccl_version"
small_header_wheels="nvidia-cuda-cccl==13.0.85 nvidia-cuda-crt==13.0.88"

deps_dir=${PLANWRIGHT_DEPS:-${XDG_CACHE_HOME:-$HOME/.cache}/planwright}
torch_dir=$deps_dir/torch-$torch_version

. tests/peers/install.sh
. tests/frameworks/install.sh

set_up() {
  set_up_packages=$build_packages
  set_up_torch=no
  set_up_peers=no
  set_up_frameworks=no
  for set_up_part in "$@"; do
    case $set_up_part in
      worker) set_up_packages="$set_up_packages $worker_packages"; set_up_torch=yes ;;
      peers) set_up_peers=yes ;;
      frameworks) set_up_packages="$set_up_packages $framework_packages"; set_up_frameworks=yes ;;
      checks) set_up_packages="$set_up_packages $check_packages" ;;
    esac
  done
  install_packages $set_up_packages
  if [ $set_up_torch = yes ]; then
    install_torch
  fi
  if [ $set_up_peers = yes ]; then
    install_peers
  fi
  if [ $set_up_frameworks = yes ]; then
    install_frameworks
  fi
}

install_packages() {
  if ! command -v dpkg-query >/dev/null; then
    echo "This is not Debian; these packages, or what they are called here, are needed: $*"
    return
  fi
  missing=$(dpkg-query -W -f '${db:Status-Status} ${Package}\n' "$@" 2>/dev/null | {
    installed=$(sed -n 's/^installed //p')
    for package in "$@"; do
      echo "$installed" | grep -qx "$package" || echo "$package"
    done
  })
  [ -n "$missing" ] || return 0
  as_root=
  if [ "$(id -u)" -ne 0 ]; then
    command -v sudo >/dev/null || {
      echo "Missing, and there is neither root nor sudo to install it: apt-get install" $missing >&2
      exit 1
    }
    as_root=sudo
  fi
  echo "Installing Debian packages (1 to 5 minutes):" $missing
  apt_log=$(mktemp)
  { $as_root apt-get update -q &&
    $as_root env DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends $missing
  } >"$apt_log" 2>&1 || { tail -n 30 "$apt_log" >&2; rm "$apt_log"; exit 1; }
  rm "$apt_log"
}

# Debian's python3-pip belongs to this interpreter, whichever comes first in PATH.
python=/usr/bin/python3
[ -x $python ] || python=python3

pip() {
  pip_quiet=-q
  ! [ -t 1 ] || pip_quiet=
  PIP_ROOT_USER_ACTION=ignore "$python" -m pip --disable-pip-version-check --no-input --no-cache-dir $pip_quiet "$@"
}

has_driver() {
  [ -e /proc/driver/nvidia/version ] || command -v nvidia-smi >/dev/null
}

# Each step leaves a stamp as its last act, so that one that was cut short is done again.
install_torch() {
  mkdir -p "$deps_dir"
  (
    flock 9
    kind=cpu
    ! has_driver || kind=gpu
    if ! [ -e "$torch_dir/.$kind-complete" ] && ! [ -e "$torch_dir/.gpu-complete" ]; then
      install_wheels $kind
    fi
    if ! [ -e "$torch_dir/.headers-complete" ] && ! toolkit_has_headers; then
      install_headers
    fi
  ) 9>"$deps_dir/lock"
}

install_wheels() {
  fresh=$torch_dir.part
  rm -rf "$fresh"
  if [ "$1" = gpu ]; then
    echo "Installing libtorch $torch_version with all CUDA libraries into $torch_dir (3 GB, 1 to 10 minutes)"
    pip install --target "$fresh" --only-binary=:all: "torch==$torch_version"
  else
    echo "Installing libtorch $torch_version into $torch_dir (545 MB, 1 to 5 minutes)"
    pip install --target "$fresh" --only-binary=:all: --no-deps $cpu_wheels
  fi
  touch "$fresh/.$1-complete"
  rm -rf "$torch_dir"
  mv "$fresh" "$torch_dir"
}

toolkit_has_headers() {
  toolkit=${CUDA_HOME:-/usr/local/cuda}/include
  [ -e "$toolkit/cusolverDn.h" ] && [ -e "$toolkit/nccl.h" ] &&
    grep -q '^#define CUDART_VERSION  *13' "$toolkit/cuda_runtime_api.h" &&
    [ "$(sed -n 's/^#define NCCL_\(MAJOR\|MINOR\|PATCH\) //p' "$toolkit/nccl.h" | paste -s -d .)" = $nccl_version ]
}

# The wheels are large and their headers small: one wheel at a time, and only its headers are kept.
install_headers() {
  wheels=$small_header_wheels
  if ! [ -e "$torch_dir/.gpu-complete" ]; then
    wheels="$header_wheels $wheels"
    echo "Fetching the CUDA headers for planwright-worker-cuda (970 MB, of which 11 MB are kept; 1 to 5 minutes)"
  fi
  for wheel in $wheels; do
    scratch=$deps_dir/wheel.part
    rm -rf "$scratch"
    pip download --dest "$scratch" --only-binary=:all: --no-deps "$wheel"
    "$python" - "$torch_dir" "$scratch"/*.whl <<'END'
import sys, zipfile
with zipfile.ZipFile(sys.argv[2]) as wheel:
    wheel.extractall(sys.argv[1], [name for name in wheel.namelist() if '/include/' in name])
END
    rm -rf "$scratch"
  done
  touch "$torch_dir/.headers-complete"
}
