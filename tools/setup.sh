#!/bin/sh
# Installs what this machine lacks of the programs named, and does nothing where all are there:
#
#   sh tools/setup.sh redis cc lua
#
# redis: redis-server or valkey-server. cc: a C compiler with the C library's headers, for the tests' settable clock and
# for the race detector. python, node: the interpreters of workers in examples/. lua: Lua 5.1, redis-lua, LuaSocket and
# busted, for the Lua client and its specs. nginx: a service that limits requests, for the tests. curl: what the README
# asks a service with. Debian and Ubuntu, as root or through sudo. macOS with Homebrew is a best effort, unverified, and without Lua.
set -eu

has() { command -v "$1" >/dev/null 2>&1; }

has_redis() { has redis-server || has valkey-server; }

has_cc() { echo 'int main(void) { return 0; }' | cc -include stdio.h -x c -o /dev/null - >/dev/null 2>&1; }

has_python() { has python3; }

has_node() { has node; }

has_lua() {
	has busted && lua5.1 -e 'require("redis") require("socket.unix") require("dkjson")' >/dev/null 2>&1
}

# Debian has it where only root looks.
has_nginx() { has nginx || [ -x /usr/sbin/nginx ]; }

has_curl() { has curl; }

die() {
	echo "setup: $1" >&2
	exit 1
}

as_root() {
	if [ "$(id -u)" = 0 ]; then
		"$@"
	elif has sudo; then
		sudo "$@"
	else
		die "installing needs root or sudo: $*"
	fi
}

# The packages of Redis and nginx start a server and enable it at boot. We want their binaries only, so a policy forbids
# starts while it is installed, and what it enabled is disabled. Of the server alone there is no package: redis-tools
# has the same binary, but under the name of redis-check-rdb. A policy that is there already (containers have one) stays.
install_with_apt() {
	as_root sh -eu -s "$@" <<'END'
export DEBIAN_FRONTEND=noninteractive
apt-get -q update </dev/null
policy=/usr/sbin/policy-rc.d
if [ ! -e "$policy" ]; then
	trap 'rm -f "$policy"' EXIT
	trap 'exit 130' INT TERM HUP
	printf '#!/bin/sh\nexit 101\n' >"$policy"
	chmod 755 "$policy"
fi
apt-get -q install -y --no-install-recommends "$@" </dev/null
for package; do
	case $package in redis-server | nginx) update-rc.d "$package" disable </dev/null ;; esac
done
END
}

missing=
for program; do
	case $program in
	redis) has_redis || missing="$missing redis" ;;
	cc) has_cc || missing="$missing cc" ;;
	python) has_python || missing="$missing python" ;;
	node) has_node || missing="$missing node" ;;
	lua) has_lua || missing="$missing lua" ;;
	nginx) has_nginx || missing="$missing nginx" ;;
	curl) has_curl || missing="$missing curl" ;;
	*) die "unknown program: $program" ;;
	esac
done
[ -n "$missing" ] || exit 0

if has apt-get; then
	packages=
	for program in $missing; do
		case $program in
		redis) packages="$packages redis-server" ;;
		cc) packages="$packages gcc libc6-dev" ;;
		python) packages="$packages python3" ;;
		node) packages="$packages nodejs" ;;
		lua) packages="$packages lua5.1 lua-redis lua-socket lua-busted" ;;
		nginx) packages="$packages nginx" ;;
		curl) packages="$packages curl" ;;
		esac
	done
	echo "setup: installing$packages" >&2
	# shellcheck disable=SC2086 # a list of words
	install_with_apt $packages
elif has brew; then
	case $missing in *cc*) die "no C compiler; install one with: xcode-select --install" ;; esac
	case $missing in *lua*) die "no busted for Lua 5.1; install with luarocks: busted redis-lua luasocket" ;; esac
	# shellcheck disable=SC2086 # a list of words
	brew install $missing
else
	die "please install$missing: neither apt-get nor brew is here to do it"
fi

for program in $missing; do
	"has_$program" || die "$program is still missing"
done
