// swift-tools-version: 6.2
// The benchmarks, which etc/benchmarks builds and runs.
//
// The benchmarks are a separate package, so that builds of the daemon do not compile them. `Main` is a link to the main
// package's sources, and `TestSupport` to its simulated network for tests. The benchmarks compile the modules of the
// main package again, because `package` declarations are visible only within one package.
import PackageDescription

let strict: [SwiftSetting] = [
    .swiftLanguageMode(.v6),
    .enableUpcomingFeature("ExistentialAny"),
    .enableUpcomingFeature("InternalImportsByDefault"),
    .enableUpcomingFeature("MemberImportVisibility"),
    .enableUpcomingFeature("NonisolatedNonsendingByDefault"),
    .strictMemorySafety(),
    .treatAllWarnings(as: .error),
    // The daemon is built with the flag `-enforce-exclusivity=unchecked`, too.
    .unsafeFlags(["-enforce-exclusivity=unchecked"], .when(configuration: .release)),
]

/// Declares a module of the main package.
func module(_ name: String, on floor: Floor, _ dependencies: [Target.Dependency] = []) -> Target {
    .target(name: name, dependencies: dependencies, path: "Main/\(floor.rawValue)/\(name)", swiftSettings: strict)
}

enum Floor: String {
    case values = "Values"
    case outside = "Outside"
    case rules = "Rules"
}

func library(_ name: String, pkgConfig: String) -> Target {
    .systemLibrary(name: name, path: "Main/CLibraries/\(name)", pkgConfig: pkgConfig)
}

let package = Package(
    name: "benchmarks",
    products: [.executable(name: "benchmarks", targets: ["run-benchmarks"])],
    targets: [
        library("CAres", pkgConfig: "libcares"),
        library("CCurl", pkgConfig: "libcurl"),
        library("CEvent", pkgConfig: "libevent"),
        library("CLZ4", pkgConfig: "liblz4"),
        library("CNGHTTP2", pkgConfig: "libnghttp2"),
        library("COpenSSL", pkgConfig: "openssl"),
        .target(name: "COsip2", path: "Main/CLibraries/COsip2", linkerSettings: [.linkedLibrary("osipparser2")]),
        library("CSQLite", pkgConfig: "sqlite3"),
        library("CYAML", pkgConfig: "yaml-0.1"),
        module("Addressing", on: .values, ["Bytes", "Collections"]),
        module("Bytes", on: .values),
        module("SIPGrammar", on: .values, ["Bytes", "Collections", "Addressing"]),
        module("JSON", on: .values, ["Bytes"]),
        module("Timekeeping", on: .values),
        module("HTTPSemantics", on: .values),
        module("Collections", on: .values),
        module("Telemetry", on: .values, ["Bytes", "Timekeeping"]),
        module("Settings", on: .values, ["CYAML"]),
        module("SIPMessage", on: .outside, ["COsip2", "SIPGrammar", "Bytes", "Collections", "Addressing"]),
        module("Crypto", on: .outside, ["COpenSSL", "Bytes", "Timekeeping"]),
        module("Reactor", on: .outside, ["CEvent", "Crypto", "Addressing", "Timekeeping", "Telemetry"]),
        module("Resolver", on: .outside, ["CAres", "Reactor", "Bytes", "Addressing", "Timekeeping"]),
        module(
            "HTTPServer", on: .outside,
            ["HTTPSemantics", "Reactor", "Crypto", "Bytes", "Addressing", "Collections", "Timekeeping"]),
        module("Storage", on: .outside, ["CSQLite"]),
        module("Compression", on: .outside, ["CLZ4", "Bytes"]),
        module("HTTP2", on: .outside, ["CNGHTTP2"]),
        module(
            "HTTPClient", on: .outside, ["HTTPSemantics", "Resolver", "Reactor", "Bytes", "Addressing", "Timekeeping"]),
        module(
            "HTTP1Connections", on: .outside,
            ["HTTPSemantics", "CCurl", "HTTPClient", "Reactor", "Addressing", "Timekeeping"]),
        module(
            "HTTP2Connections", on: .outside,
            ["HTTPSemantics", "HTTP2", "HTTPClient", "Reactor", "Crypto", "Addressing", "Timekeeping"]),
        module(
            "PushDelivery", on: .rules,
            ["JSON", "SIPGrammar", "Bytes", "Addressing", "Collections", "Timekeeping", "Telemetry", "Settings"]),
        module(
            "Registration", on: .rules,
            [
                "PushDelivery", "SIPGrammar", "JSON", "Bytes", "Addressing", "Collections", "Timekeeping", "Telemetry",
                "Settings",
            ]),
        module(
            "SIPTransactions", on: .rules,
            ["SIPGrammar", "Bytes", "Addressing", "Collections", "Timekeeping", "Telemetry"]),
        module(
            "UpstreamRegistration", on: .rules,
            ["Registration", "SIPGrammar", "Bytes", "Addressing", "Collections", "Timekeeping", "Telemetry"]),
        module(
            "ProxyPolicy", on: .rules,
            [
                "PushDelivery", "Registration", "SIPTransactions", "SIPGrammar", "Bytes", "Addressing", "Timekeeping",
                "Settings",
            ]),
        module(
            "AccessLimits", on: .rules,
            [
                "PushDelivery", "Registration", "Routing", "ProxyPolicy", "SIPTransactions", "SIPGrammar", "Bytes",
                "Addressing", "Collections", "Timekeeping", "Telemetry",
            ]),
        module(
            "SIPDialogs", on: .rules,
            ["Registration", "SIPTransactions", "SIPGrammar", "Bytes", "Addressing", "Collections", "Timekeeping"]),
        module(
            "Routing", on: .rules,
            [
                "PushDelivery", "Registration", "SIPDialogs", "ProxyPolicy", "SIPTransactions", "SIPGrammar", "Bytes",
                "Addressing", "Collections", "Timekeeping", "Telemetry",
            ]),
        module(
            "Calling", on: .rules,
            [
                "UpstreamRegistration", "PushDelivery", "Registration", "Routing", "SIPDialogs", "ProxyPolicy",
                "SIPTransactions", "SIPGrammar",
                "Bytes", "Addressing", "Collections", "Timekeeping",
            ]),
        module(
            "Waking", on: .rules,
            [
                "Registration", "Calling", "ProxyPolicy", "SIPTransactions", "SIPGrammar", "Bytes", "Addressing",
                "Collections", "Timekeeping",
            ]),
        module(
            "Messaging", on: .rules,
            [
                "PushDelivery", "Registration", "Calling", "Routing", "ProxyPolicy", "SIPTransactions", "SIPGrammar",
                "Bytes", "Addressing", "Timekeeping",
            ]),
        module(
            "ServiceEvents", on: .rules,
            ["Calling", "PushDelivery", "Registration", "Bytes", "Addressing", "Timekeeping"]),
        module(
            "PushPlanning", on: .rules,
            [
                "PushDelivery", "Registration", "Calling", "Routing", "AccessLimits", "ProxyPolicy", "SIPGrammar",
                "Bytes", "Addressing", "Collections", "Timekeeping", "Telemetry",
            ]),
        module(
            "LocationService", on: .rules,
            [
                "PushPlanning", "PushDelivery", "Registration", "Routing", "SIPGrammar", "Bytes", "Addressing",
                "Timekeeping",
            ]),
        module(
            "ProxyCore", on: .rules,
            [
                "UpstreamRegistration", "Calling", "Waking", "Messaging", "PushPlanning", "ServiceEvents",
                "LocationService", "ProxyPolicy", "AccessLimits",
                "SIPDialogs", "Routing", "PushDelivery", "Registration", "SIPTransactions", "SIPGrammar", "Bytes",
                "Addressing", "Collections", "Timekeeping", "Telemetry", "Settings",
            ]),
        .target(
            name: "TestSupport",
            dependencies: [
                "ProxyCore", "UpstreamRegistration", "LocationService", "PushPlanning", "Messaging", "Calling",
                "Routing", "SIPDialogs",
                "ProxyPolicy", "PushDelivery", "Registration", "SIPTransactions", "Storage", "Crypto", "Compression",
                "SIPMessage", "SIPGrammar", "Bytes", "Addressing", "Telemetry", "Timekeeping",
            ], path: "TestSupport", swiftSettings: strict),

        .target(
            name: "Benchmarks",
            dependencies: [
                "TestSupport", "ProxyCore", "UpstreamRegistration", "Routing", "ProxyPolicy", "PushDelivery",
                "Registration",
                "HTTP2Connections", "HTTPClient", "HTTPServer", "HTTPSemantics", "Reactor", "Crypto", "SIPMessage",
                "SIPGrammar", "Bytes", "Addressing", "Timekeeping", "Telemetry",
            ], swiftSettings: strict),
        // `CAllocationCount` is a malloc that counts allocations. Only the program of the benchmarks may link the
        // counting malloc.
        .target(name: "CAllocationCount"),
        .executableTarget(
            name: "run-benchmarks", dependencies: ["Benchmarks", "CAllocationCount"], swiftSettings: strict),
        .testTarget(
            name: "BenchmarksTests",
            dependencies: ["Benchmarks", "SIPMessage", "SIPGrammar", "Bytes", "Addressing", "Timekeeping"],
            swiftSettings: strict),
    ]
)
