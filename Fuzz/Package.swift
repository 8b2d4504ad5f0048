// swift-tools-version: 6.2
// Fuzzers for the code that reads bytes from the network; README.md explains how to run them.
//
// The fuzzers are a separate package, because a dependency of the main package may have no unsafe flags. The modules
// are links to the main package's folders, because `package` declarations are visible only within one package.
import PackageDescription

// One flag has both the fuzzer and the address sanitizer, because swiftc uses only the last of two flags. The command
// line still needs `--sanitize=fuzzer`, which leaves `main` to libFuzzer.
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

/// Declares a fuzzer; libFuzzer provides its `main`.
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
        module("Addressing", ["Bytes", "Collections"]),
        module("Bytes"),
        module("HTTPSemantics"),
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
        fuzzer("FuzzHTTP", ["HTTPSemantics", "Bytes", "Addressing"]),
        fuzzer("FuzzJSON", ["JSON", "Bytes"]),
    ]
)
