// swift-tools-version: 6.2
// Fuzz targets for what reads bytes from the network; README.md says how they are run.
//
// A package of its own, since the flag below would keep the main one from being a dependency. Its modules are links to
// the main package's folders: `package` declarations are visible within one package only.
import PackageDescription

// Both sanitizers in one flag: of two, swiftc heeds the last only, and `swift build --sanitize=fuzzer --sanitize=address`
// gives them in random order, so that either the coverage or the memory checks are missing. `--sanitize=fuzzer` alone is
// still needed on the command line: it keeps `main` for libFuzzer.
let sanitized = "-sanitize=fuzzer,address"

let strict: [SwiftSetting] = [
    .swiftLanguageMode(.v6),
    .enableUpcomingFeature("ExistentialAny"),
    .enableUpcomingFeature("InternalImportsByDefault"),
    .enableUpcomingFeature("MemberImportVisibility"),
    .enableUpcomingFeature("NonisolatedNonsendingByDefault"),
    .strictMemorySafety(),
    .unsafeFlags([sanitized]),
]

func module(_ name: String, _ dependencies: [Target.Dependency] = []) -> Target {
    .target(name: name, dependencies: dependencies, swiftSettings: strict)
}

/// libFuzzer brings `main`.
func fuzzer(_ name: String, _ dependencies: [Target.Dependency]) -> Target {
    .executableTarget(
        name: name, dependencies: dependencies,
        swiftSettings: strict + [.unsafeFlags(["-parse-as-library"])],
        linkerSettings: [.unsafeFlags([sanitized, "-use-ld=lld"])])
}

let package = Package(
    name: "fuzz",
    targets: [
        .target(
            name: "COsip2", cSettings: [.unsafeFlags(["-fsanitize=fuzzer-no-link,address"])],
            linkerSettings: [.linkedLibrary("osipparser2")]),
        module("Collections"),
        module("Addressing", ["Collections"]),
        module("Bytes"),
        module("SIPGrammar", ["Bytes", "Collections", "Addressing"]),
        module("SIPMessage", ["COsip2", "SIPGrammar", "Bytes", "Collections", "Addressing"]),
        module("JSON", ["Bytes"]),
        .systemLibrary(name: "COpenSSL", pkgConfig: "openssl"),
        .systemLibrary(name: "CWSlay"),
        module("Timekeeping"),
        module("Crypto", ["COpenSSL", "Bytes", "Timekeeping"]),
        module("WebSocket", ["CWSlay", "Crypto", "Bytes"]),
        fuzzer("FuzzSIP", ["SIPMessage", "SIPGrammar", "Bytes", "Addressing"]),
        fuzzer("FuzzValues", ["SIPMessage", "SIPGrammar", "Bytes"]),
        fuzzer("FuzzFramer", ["SIPMessage", "SIPGrammar", "Bytes", "Addressing"]),
        fuzzer("FuzzEdge", ["WebSocket", "Addressing"]),
        fuzzer("FuzzHTTP", ["Addressing"]),
        fuzzer("FuzzJSON", ["JSON"]),
    ]
)
