# Sourced by the scripts beside it.
# shellcheck shell=bash

# shellcheck source=.ci/tools.env
source "$(dirname "${BASH_SOURCE[0]}")/tools.env"

# Built tools outlive a clone: they are kept by version in the user's cache, or
# in .ci/bin where there is no home.
if [ -n "${XDG_CACHE_HOME:-${HOME:-}}" ]; then
	tool_dir="${XDG_CACHE_HOME:-$HOME/.cache}/aipctl-tools"
else
	tool_dir="$PWD/.ci/bin"
fi

# tool NAME PKG VERSION prints the path of the tool in exactly that version. One
# on the PATH or in GOPATH/bin is taken, else it is built from source.
tool() {
	local name="$1" pkg="$2" version="$3" at
	for at in "$tool_dir/$name-$version/$name" "$(command -v "$name" || true)" "$(go env GOPATH)/bin/$name"; do
		if [ -x "$at" ] && go version -m "$at" 2>/dev/null | grep -qE "^[[:space:]]+mod[[:space:]]+[^[:space:]]+[[:space:]]+$version([[:space:]]|\$)"; then
			echo "$at"
			return
		fi
	done
	echo "building $name $version" >&2
	GOFLAGS='' GOBIN="$tool_dir/$name-$version" CGO_ENABLED=0 go install "$pkg@$version"
	echo "$tool_dir/$name-$version/$name"
}
