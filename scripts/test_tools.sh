#!/usr/bin/env bash
# Installs what the tests need besides Python packages: the distribution's PostgreSQL and PgBouncer, strace, libfaketime.
# Without them (no apt, no rights) the tests that need them are skipped by name, except in CI, where they fail.
set -euo pipefail

missing=()
ls /usr/lib/postgresql/*/bin/postgres >/dev/null 2>&1 || missing+=(postgresql)
for program in pgbouncer strace faketime; do
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
$sudo env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
