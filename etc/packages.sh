# Sourced by etc/run and etc/check: lists the necessary Debian packages, and installs them.

# The packages of the program's libraries: the libraries that Package.swift names, the SIP parser, which has its own C target in
# Package.swift, and the script that draws the plots of the operators' web page. The script becomes a part of the program.
build_packages() {
    echo pkg-config libosip2-dev libjs-chart.js
    sed -n 's/.*debian: "\([^"]*\)".*/\1/p' Package.swift | LC_ALL=C sort -u
}

# The Debian packages that etc/run needs in addition.
run_packages() { echo sip-tester curl openssl; }

# The packages that etc/run --cluster needs in addition.
cluster_packages() { echo postgresql python3; }

# The packages that etc/package needs in addition.
package_packages() { echo dpkg-dev debhelper; }

# The packages that the checks need in addition, and packages that they use only if they are installed.
check_packages() { echo openssl curl sqlite3 sip-tester python3-venv valgrind binutils cmark-gfm; }
# The tests start the programs of the database servers in temporary folders.
optional_check_packages() { echo postgresql mariadb-server-core nghttp2-client nghttp2-server baresip-core linphone-cli kamailio zbar-tools chromium strace sngrep $(package_packages) mmdebstrap lintian mandoc zsh fish umoci kotlin \
    iproute2 libfaketime kamailio-sqlite-modules kamailio-mysql-modules kamailio-postgres-modules; }

missing_packages() {
    local package
    for package in "$@"; do
        dpkg-query -W -f='${Status}' "$package" 2>/dev/null | grep -q 'install ok installed' || echo "$package"
    done
}

# The list has all packages if dpkg exists. Without dpkg, install_packages only prints the packages that it assumes to be installed.
missing_packages_here() { if command -v dpkg-query >/dev/null; then missing_packages "$@"; else echo "$@"; fi; }

as_root() {
    if [ "$(id -u)" = 0 ]; then
        "$@"
    elif command -v sudo >/dev/null; then
        sudo -n "$@"
    else
        return 1
    fi
}

apt_is_updated=no
apt_install() {
    if [ $apt_is_updated = no ]; then
        as_root apt-get -q update || return 1
        apt_is_updated=yes
    fi
    as_root env DEBIAN_FRONTEND=noninteractive apt-get -q -y --no-install-recommends install "$@"
}

# install_packages PACKAGE...: installs the missing packages. If an installation is not possible, the function prints the names of
# the missing packages.
install_packages() {
    local missing
    if ! command -v dpkg-query >/dev/null; then
        echo "Not a Debian system: these are taken to be here under their own names: $*"
        return 0
    fi
    missing=$(missing_packages "$@")
    [ -n "$missing" ] || return 0
    echo "Installing" $missing
    apt_install $missing && return 0
    echo "Cannot install packages here. As root: apt-get install" $missing >&2
    return 1
}

# install_optional PACKAGE...: installs each package separately, because some Debian releases lack one of the packages.
install_optional() {
    local package
    command -v dpkg-query >/dev/null || return 0
    for package in $(missing_packages "$@"); do
        apt_install "$package" >/dev/null 2>&1 || echo "Without $package: what needs it is left out."
    done
}

require_swift() {
    command -v swift >/dev/null && return 0
    echo "The Swift toolchain is missing: install Swift 6.3 or later from https://www.swift.org/install/linux/" >&2
    return 1
}

# promtool_program FOLDER: prints the path of promtool. Only the program promtool is extracted from Debian's package
# prometheus into FOLDER, because installing the package would start a server.
promtool_program() {
    local folder=$1 package=prometheus
    command -v promtool && return 0
    if [ ! -x "$folder/promtool" ]; then
        command -v apt-get >/dev/null && mkdir -p "$folder/package" || return 1
        (
            cd "$folder/package" || exit 1
            apt-get -q download $package || { as_root apt-get -q update && apt-get -q download $package; } || exit 1
            dpkg-deb --fsys-tarfile ${package}_*.deb | tar -x -O ./usr/bin/promtool >../promtool.new &&
                chmod +x ../promtool.new && mv ../promtool.new ../promtool
        ) >&2 || return 1
        rm -rf "$folder/package"
    fi
    echo "$folder/promtool"
}
