// swift-tools-version: 6.2
// This file has one entry for each target, sorted by floor from the bottom up. docs/Modules.md gives the purpose of each target.
import PackageDescription

let strict: [SwiftSetting] = [
    .swiftLanguageMode(.v6),
    .enableUpcomingFeature("ExistentialAny"),
    .enableUpcomingFeature("InternalImportsByDefault"),
    .enableUpcomingFeature("MemberImportVisibility"),
    .enableUpcomingFeature("NonisolatedNonsendingByDefault"),
    .strictMemorySafety(),
    .treatAllWarnings(as: .error),
]

// The programs contain Swift's libraries. If each jump into Swift's libraries went through a table to another memory page, a call would
// take a seventh more CPU time.
// Tests that are built in release mode use Swift's shared libraries.
let inside = Context.environment["SIPPUSHD_TESTS"] == nil ? ["-static-stdlib"] : []

// Only debug builds, which the tests use, check whether two accesses to one place overlap, because the check costs six per cent of the
// CPU time of each message. Release builds also do not check in each closure whether it runs on its actor, because `assumeIsolated` has
// just checked this before it calls the closure.
let unchecked = ["-enforce-exclusivity=unchecked", "-Xfrontend", "-disable-dynamic-actor-isolation"]
let released = strict + [.unsafeFlags(unchecked + inside, .when(configuration: .release))]

/// A floor is a folder of `Sources` and of `Tests`. The README.md of each folder in `Sources` describes the floor.
enum Floor: String {
    case values = "Values"
    case outside = "Outside"
    case rules = "Rules"
    case shell = "Shell"
    case tools = "Tools"
}

func module(_ name: String, on floor: Floor, _ dependencies: [Target.Dependency] = []) -> Target {
    .target(
        name: name, dependencies: dependencies, path: "Sources/\(floor.rawValue)/\(name)", swiftSettings: released)
}

func program(
    _ name: String, on floor: Floor, _ dependencies: [Target.Dependency], libraries: [String] = []
) -> Target {
    .executableTarget(
        name: name, dependencies: dependencies, path: "Sources/\(floor.rawValue)/\(name)", swiftSettings: released,
        linkerSettings: [.unsafeFlags(inside + ["-use-ld=lld"], .when(configuration: .release))]
            + libraries.map { .linkedLibrary($0, .when(configuration: .release)) })
}

// A call allocates and frees memory 140 times. The library mimalloc replaces glibc's allocator, which needs twice as many instructions.
// Debug builds do not use mimalloc, because the sanitizers have their own allocators.
let allocator = (library: "mimalloc", debian: "libmimalloc-dev")

func tests(_ name: String, on floor: Floor, _ dependencies: [Target.Dependency]) -> Target {
    .testTarget(
        name: name, dependencies: dependencies, path: "Tests/\(floor.rawValue)/\(name)", swiftSettings: strict)
}

/// Declares a target with code that the tests of several modules share.
func support(_ name: String, _ dependencies: [Target.Dependency]) -> Target {
    .target(name: name, dependencies: dependencies, path: "Tests/Support/\(name)", swiftSettings: strict)
}

func library(_ name: String, pkgConfig: String?, debian: String) -> Target {
    .systemLibrary(name: name, path: "Sources/CLibraries/\(name)", pkgConfig: pkgConfig, providers: [.apt([debian])])
}

// etc/release passes the commit of the build. Any other text in this variable must be a plain name.
let commit = Context.environment["SIPPUSHD_COMMIT"] ?? ""
let isCommit = !commit.isEmpty && commit.allSatisfy { $0.isASCII && ($0.isLetter || $0.isNumber || $0 == "+") }

let package = Package(
    name: "sippushd",
    products: [
        .executable(name: "sippushd", targets: ["sippushd"]),
        .executable(name: "push-sandbox", targets: ["push-sandbox"]),
    ],
    targets: [
        // C libraries. Only one module imports each of them.
        library("CAres", pkgConfig: "libcares", debian: "libc-ares-dev"),
        library("CCurl", pkgConfig: "libcurl", debian: "libcurl4-openssl-dev"),
        library("CEvent", pkgConfig: "libevent", debian: "libevent-dev"),
        library("CLZ4", pkgConfig: "liblz4", debian: "liblz4-dev"),
        library("CMariaDB", pkgConfig: "libmariadb", debian: "libmariadb-dev"),
        library("CNGHTTP2", pkgConfig: "libnghttp2", debian: "libnghttp2-dev"),
        library("COpenSSL", pkgConfig: "openssl", debian: "libssl-dev"),
        // This target is no system library, because its allocators need a few lines of C for the state of each thread.
        .target(
            name: "COsip2", path: "Sources/CLibraries/COsip2", linkerSettings: [.linkedLibrary("osipparser2")]),
        // The files of the operators' web page, and Debian's Chart.js, as C arrays.
        .target(name: "CPage", path: "Sources/CLibraries/CPage", exclude: ["files"]),
        library("CPQ", pkgConfig: "libpq", debian: "libpq-dev"),
        library("CQREncode", pkgConfig: "libqrencode", debian: "libqrencode-dev"),
        library("CSQLite", pkgConfig: "sqlite3", debian: "libsqlite3-dev"),
        // This library has no description for pkg-config.
        library("CWSlay", pkgConfig: nil, debian: "libwslay-dev"),
        .target(
            name: "CVersion", path: "Sources/CLibraries/CVersion",
            cSettings: [.define("SIPPUSHD_COMMIT", to: "\"\(isCommit ? commit : "unknown")\"")]),
        library("CYAML", pkgConfig: "yaml-0.1", debian: "libyaml-dev"),

        // Values
        module("Addressing", on: .values, ["Bytes", "Collections"]),
        module("Bytes", on: .values),
        module("SIPGrammar", on: .values, ["Bytes", "Collections", "Addressing"]),
        module("JSON", on: .values, ["Bytes"]),
        module("Timekeeping", on: .values),
        module("HTTPSemantics", on: .values),
        module("Collections", on: .values),
        module("Telemetry", on: .values, ["Bytes", "Timekeeping"]),
        module("Settings", on: .values, ["CYAML"]),

        // The outside world
        module("SIPMessage", on: .outside, ["COsip2", "SIPGrammar", "Bytes", "Collections", "Addressing"]),
        module("Crypto", on: .outside, ["COpenSSL", "Bytes", "Timekeeping"]),
        module("Reactor", on: .outside, ["CEvent", "Crypto", "Addressing", "Timekeeping", "Telemetry"]),
        module("Resolver", on: .outside, ["CAres", "Reactor", "Bytes", "Addressing", "Timekeeping"]),
        module(
            "HTTPServer", on: .outside,
            ["HTTPSemantics", "Reactor", "Crypto", "Bytes", "Addressing", "Collections", "Timekeeping"]),
        module("HEP", on: .outside, ["SIPGrammar", "Bytes", "Addressing"]),
        module("OTLP", on: .outside, ["Crypto", "JSON", "Bytes"]),
        module("WebSocket", on: .outside, ["CWSlay", "Crypto", "Bytes"]),
        module("Storage", on: .outside, ["CSQLite"]),
        module("PostgreSQLClient", on: .outside, ["CPQ"]),
        module("MariaDBClient", on: .outside, ["CMariaDB"]),
        module("Compression", on: .outside, ["CLZ4", "Bytes"]),
        module("QRCode", on: .outside, ["CQREncode"]),
        module("HTTP2", on: .outside, ["CNGHTTP2"]),
        module(
            "HTTPClient", on: .outside,
            ["HTTPSemantics", "Resolver", "Reactor", "Crypto", "Bytes", "Addressing", "Timekeeping"]),
        module(
            "HTTP1Connections", on: .outside,
            ["HTTPSemantics", "CCurl", "HTTPClient", "Reactor", "Crypto", "Addressing", "Timekeeping"]),
        module(
            "HTTP2Connections", on: .outside,
            ["HTTPSemantics", "HTTP2", "HTTPClient", "Reactor", "Crypto", "Addressing", "Timekeeping"]),

        // Rules
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
                "Bytes", "Addressing", "Collections", "Timekeeping", "JSON",
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
                "UpstreamRegistration",
                "Calling", "Waking", "Messaging", "PushPlanning", "ServiceEvents", "LocationService", "ProxyPolicy",
                "AccessLimits",
                "SIPDialogs", "Routing", "PushDelivery", "Registration", "SIPTransactions", "SIPGrammar", "Bytes",
                "Addressing", "Collections", "Timekeeping", "Telemetry", "Settings",
            ]),

        // Shell
        module(
            "PushSending", on: .shell,
            [
                "HTTPSemantics",
                "ProxyCore", "PushDelivery", "Registration", "HTTP2Connections", "HTTP1Connections", "HTTPClient",
                "Resolver", "Reactor", "Crypto", "JSON", "Bytes", "Addressing", "Timekeeping", "Telemetry", "Settings",
            ]),
        module(
            "Persistence", on: .shell,
            [
                "ProxyCore", "PushPlanning", "Messaging", "Calling", "Routing", "PushDelivery", "Registration",
                "Storage", "PostgreSQLClient", "Reactor", "Crypto", "Bytes", "Addressing", "Collections", "Timekeeping",
                "Telemetry",
            ]),
        module(
            "UserSources", on: .shell,
            [
                "HTTPSemantics", "Registration", "HTTP1Connections", "HTTPClient", "PostgreSQLClient", "MariaDBClient",
                "Storage", "Reactor", "Crypto", "JSON", "Bytes", "Timekeeping", "Telemetry", "Settings",
            ]),
        module(
            "ProxyRuntime", on: .shell,
            [
                "HTTPSemantics", "Persistence", "PushSending", "ProxyCore", "ServiceEvents", "PushPlanning", "Calling",
                "Routing", "UpstreamRegistration",
                "SIPDialogs", "ProxyPolicy", "PushDelivery", "Registration", "HTTPServer", "HEP", "OTLP", "WebSocket",
                "HTTP1Connections", "HTTPClient", "Resolver",
                "Reactor", "Crypto", "Compression", "SIPMessage", "SIPGrammar", "JSON", "Bytes", "Addressing",
                "Collections", "Timekeeping", "Telemetry", "Settings", "CVersion",
            ]),
        module(
            "HTTPServices", on: .shell,
            [
                "HTTPSemantics", "ProxyRuntime", "Persistence", "PushSending", "ProxyCore", "ServiceEvents", "Calling",
                "Routing", "ProxyPolicy",
                "PushDelivery", "Registration", "HTTP1Connections", "HTTPClient", "HTTPServer", "Resolver", "Reactor",
                "Crypto", "JSON", "SIPGrammar", "Bytes", "Addressing", "Collections", "Timekeeping", "Telemetry",
                "Settings",
            ]),
        module(
            "Control", on: .shell,
            [
                "HTTPSemantics", "HTTPServices", "ProxyRuntime", "Persistence", "PushSending", "ProxyCore",
                "PushPlanning", "Messaging",
                "Calling", "Routing", "ProxyPolicy", "UpstreamRegistration", "Settings", "PushDelivery", "Registration",
                "HTTPServer", "Reactor", "Crypto", "JSON",
                "SIPGrammar", "Bytes", "Addressing", "Collections", "Timekeeping", "Telemetry",
            ]),
        module(
            "OperatorPage", on: .shell,
            [
                "CPage", "HTTPSemantics", "Control", "HTTPServices", "ProxyRuntime", "Persistence", "ProxyCore",
                "PushPlanning", "Calling", "PushDelivery", "Registration", "HTTPServer", "Reactor", "Crypto", "JSON",
                "Bytes", "Addressing", "Collections", "Timekeeping", "Telemetry",
            ]),
        module(
            "ProxyDaemon", on: .shell,
            [
                "OperatorPage", "Control", "HTTPServices", "ProxyRuntime", "UserSources", "Persistence", "PushSending",
                "ProxyCore",
                "Calling",
                "Routing", "ProxyPolicy", "PushDelivery", "Registration", "HTTPServer", "Resolver", "Reactor", "Crypto",
                "SIPMessage", "SIPGrammar", "Bytes", "Addressing", "Timekeeping", "Telemetry", "Settings",
            ]),
        program(
            "sippushd", on: .shell,
            [
                "ProxyDaemon", "Control", "HTTPServices", "ProxyRuntime", "PushSending", "PushDelivery", "Registration",
                "HTTP1Connections", "HTTPClient", "QRCode", "Reactor", "Settings", "Telemetry", "Timekeeping", "JSON",
                "Bytes",
            ], libraries: [allocator.library]),
        module(
            "PushSandbox", on: .tools,
            [
                "HTTPSemantics", "HTTP2", "HTTPServer", "Reactor", "Crypto", "JSON", "SIPGrammar", "Bytes",
                "Addressing", "Timekeeping",
            ]),
        program("push-sandbox", on: .tools, ["PushSandbox", "Reactor", "Crypto", "Addressing", "Timekeeping", "JSON"]),
        module(
            "ScenarioReplay", on: .tools,
            ["HEP", "Crypto", "JSON", "SIPGrammar", "Bytes", "Settings", "Telemetry", "Timekeeping"]),
        program("scenario-replay", on: .tools, ["ScenarioReplay"]),

        // Tests
        // What the tests of everything that lives on an event loop share.
        support(
            "LoopTesting",
            [
                "ScenarioReplay", "HTTP2Connections", "HTTP1Connections", "HTTPClient", "Reactor", "Crypto",
                "Addressing",
            ]),
        support(
            "TestSupport",
            [
                "ProxyCore", "UpstreamRegistration", "LocationService", "PushPlanning", "Messaging", "Calling",
                "Routing", "SIPDialogs",
                "ProxyPolicy", "PushDelivery", "Registration", "SIPTransactions", "Storage", "Crypto", "Compression",
                "SIPMessage", "SIPGrammar", "Bytes", "Addressing", "Telemetry", "Timekeeping",
            ]),
        tests("AddressingTests", on: .values, ["Addressing"]),
        tests("BytesTests", on: .values, ["Bytes"]),
        tests("CollectionsTests", on: .values, ["TestSupport", "Collections"]),
        tests("CompressionTests", on: .outside, ["TestSupport", "Compression", "Bytes"]),
        tests("QRCodeTests", on: .outside, ["QRCode"]),
        tests("CryptoTests", on: .outside, ["TestSupport", "Crypto", "Bytes", "Timekeeping"]),
        tests("HTTP2Tests", on: .outside, ["HTTP2"]),
        tests(
            "HTTPClientTests", on: .outside,
            [
                "HTTPSemantics",
                "TestSupport", "ProviderTesting", "HTTP1Connections", "HTTP2Connections", "HTTPClient", "HTTP2",
                "LoopTesting", "ScenarioReplay", "Reactor", "Crypto", "Addressing", "Timekeeping",
            ]),
        tests(
            "HTTPServerTests", on: .outside,
            [
                "HTTPSemantics",
                "TestSupport", "HTTPServer", "HTTP1Connections", "HTTPClient", "LoopTesting", "Reactor", "Crypto",
                "Addressing", "Timekeeping",
            ]),
        tests("JSONTests", on: .values, ["TestSupport", "JSON", "Bytes"]),
        tests(
            "RoutingTests", on: .rules,
            [
                "TestSupport", "Routing", "SIPDialogs", "ProxyPolicy", "SIPTransactions", "SIPGrammar", "Bytes",
                "Addressing", "Timekeeping", "Telemetry",
            ]),
        tests(
            "AccessLimitsTests", on: .rules,
            [
                "TestSupport", "AccessLimits", "PushDelivery", "Registration", "Bytes", "Addressing", "Timekeeping",
                "Telemetry",
            ]),
        tests(
            "SIPDialogsTests", on: .rules,
            ["TestSupport", "SIPDialogs", "Registration", "Bytes", "Addressing", "Timekeeping"]),
        tests(
            "PushPlanningTests", on: .rules,
            [
                "LocationService", "TestSupport", "PushPlanning", "Calling", "Routing", "ProxyPolicy", "PushDelivery",
                "Registration", "SIPTransactions", "Bytes", "Addressing", "Timekeeping", "Telemetry",
            ]),
        tests(
            "LocationServiceTests", on: .rules,
            [
                "Routing", "TestSupport", "LocationService", "PushDelivery", "Registration", "SIPGrammar", "Bytes",
                "Addressing", "Timekeeping", "Telemetry",
            ]),
        tests(
            "MessagingTests", on: .rules,
            [
                "TestSupport", "Messaging", "Calling", "ProxyPolicy", "SIPTransactions", "SIPGrammar", "Bytes",
                "Addressing", "Timekeeping",
            ]),
        tests(
            "WakingTests", on: .rules,
            [
                "TestSupport", "Waking", "Calling", "ProxyPolicy", "Registration", "SIPTransactions", "SIPGrammar",
                "Bytes", "Addressing", "Timekeeping", "Settings",
            ]),
        tests(
            "CallingTests", on: .rules,
            [
                "TestSupport", "Calling", "Routing", "AccessLimits", "ProxyPolicy", "Registration", "SIPMessage",
                "SIPTransactions", "SIPGrammar", "Bytes", "Addressing", "Collections", "Timekeeping",
            ]),
        tests(
            "ServiceEventsTests", on: .rules,
            [
                "ServiceEvents", "Calling", "PushDelivery", "Registration", "SIPGrammar", "SIPTransactions", "Bytes",
                "Addressing", "Timekeeping",
            ]),
        tests(
            "ProxyCoreTests", on: .rules,
            [
                "UpstreamRegistration",
                "ProxyCore", "ServiceEvents", "Messaging", "LocationService", "PushPlanning", "Calling", "Routing",
                "SIPDialogs", "AccessLimits", "ProxyPolicy", "Crypto", "TestSupport", "PushDelivery", "Registration",
                "SIPTransactions", "SIPMessage", "SIPGrammar", "Bytes", "Addressing", "Collections", "Telemetry",
                "Timekeeping",
            ]),
        support(
            "StoreTesting",
            [
                "Persistence", "TestSupport", "PushDelivery", "Storage", "PostgreSQLClient", "Reactor", "Crypto",
                "Bytes", "Addressing", "Telemetry", "Timekeeping",
            ]),
        tests(
            "PersistenceTests", on: .shell,
            [
                "Persistence", "StoreTesting", "LoopTesting", "TestSupport", "ProxyCore", "PushPlanning", "Messaging",
                "Calling", "PushDelivery", "Registration", "Storage", "PostgreSQLClient", "Reactor", "Crypto", "Bytes",
                "Addressing", "Collections", "Telemetry", "Timekeeping",
            ]),
        tests(
            "UserSourcesTests", on: .shell,
            [
                "UserSources", "StoreTesting", "Registration", "Storage", "Addressing", "LoopTesting",
                "ProviderTesting", "TestSupport",
                "Reactor",
                "Crypto", "Settings", "Bytes", "Timekeeping",
            ]),
        tests(
            "ProxyRuntimeTests", on: .shell,
            [
                "ProxyRuntime", "Persistence", "PushSending", "StoreTesting", "ProviderTesting", "LoopTesting",
                "TestSupport", "ProxyCore", "UpstreamRegistration", "Routing", "ProxyPolicy", "PushDelivery",
                "Registration", "HEP", "OTLP",
                "HTTPSemantics", "JSON", "Calling", "Resolver", "Reactor", "Crypto", "SIPMessage", "Settings",
                "SIPGrammar", "Bytes", "Addressing",
                "Timekeeping",
                "Telemetry",
            ]),
        tests(
            "HTTPServicesTests", on: .shell,
            [
                "HTTPSemantics", "HTTPServices", "ProxyRuntime", "Persistence", "StoreTesting", "ProviderTesting",
                "PushSandbox", "LoopTesting", "TestSupport", "ProxyCore", "ServiceEvents", "PushPlanning",
                "ProxyPolicy", "PushDelivery", "Registration", "HTTPClient", "HTTPServer", "Reactor", "Storage",
                "Crypto", "JSON", "Settings",
                "SIPGrammar", "Bytes", "Addressing", "Timekeeping", "Telemetry", "Collections",
            ]),
        tests(
            "ControlTests", on: .shell,
            [
                "HTTPSemantics", "Control", "UpstreamRegistration", "HTTPServices", "ProxyRuntime", "Persistence",
                "PushSending",
                "StoreTesting",
                "ProviderTesting", "LoopTesting", "TestSupport", "ProxyCore", "Routing", "ProxyPolicy", "PushDelivery",
                "Registration", "HTTP1Connections", "HTTPClient", "HTTPServer", "Reactor", "Storage", "Crypto",
                "SIPMessage", "SIPGrammar", "Bytes", "Addressing", "Timekeeping", "Telemetry", "JSON",
            ]),
        tests(
            "OperatorPageTests", on: .shell,
            [
                "OperatorPage", "HTTPSemantics", "Control", "HTTPServices", "ProxyRuntime", "ProxyCore", "Calling",
                "PushPlanning", "PushDelivery", "Registration", "HTTPServer", "LoopTesting", "TestSupport", "Reactor",
                "Crypto", "JSON", "Bytes", "Addressing", "Timekeeping", "Telemetry",
            ]),
        tests(
            "ProxyDaemonTests", on: .shell,
            [
                "HTTPSemantics", "ProxyDaemon", "OperatorPage", "Control", "HTTPServices", "ProxyRuntime",
                "UserSources", "Persistence",
                "PushSending",
                "StoreTesting", "ProviderTesting", "PushSandbox", "LoopTesting", "TestSupport", "ProxyCore", "Routing",
                "ProxyPolicy", "PushDelivery", "Registration", "HTTP1Connections", "HTTPClient", "HTTPServer",
                "Reactor", "Storage", "Crypto", "SIPMessage", "JSON", "Settings", "SIPGrammar", "Bytes", "Addressing",
                "Timekeeping", "Telemetry",
            ]),
        support(
            "ProviderTesting",
            [
                "TestSupport", "LoopTesting", "PushSandbox", "PushDelivery", "Reactor", "Crypto", "JSON", "Bytes",
                "Addressing",
                "Timekeeping",
            ]),
        tests(
            "PushSendingTests", on: .shell,
            [
                "PushSending", "PushSandbox", "ProviderTesting", "LoopTesting", "TestSupport", "ProxyCore",
                "PushDelivery",
                "Registration", "HTTPClient", "HTTPServer", "Reactor", "Crypto", "JSON", "Settings", "Bytes",
                "Addressing",
                "Timekeeping",
                "Telemetry",
            ]),
        tests(
            "PushDeliveryTests", on: .rules,
            ["TestSupport", "PushDelivery", "JSON", "Settings", "SIPGrammar", "Bytes", "Addressing", "Timekeeping"]),
        tests(
            "PushSandboxTests", on: .tools,
            [
                "TestSupport", "PushSandbox", "LoopTesting", "Reactor", "Crypto", "JSON", "Bytes", "Addressing",
                "Timekeeping",
            ]),
        tests(
            "ReactorTests", on: .outside,
            ["TestSupport", "LoopTesting", "ScenarioReplay", "Reactor", "Crypto", "Addressing", "Timekeeping"]),
        tests(
            "ResolverTests", on: .outside,
            ["TestSupport", "Resolver", "LoopTesting", "Reactor", "Addressing", "Timekeeping"]),
        tests("ScenarioReplayTests", on: .tools, ["ScenarioReplay", "Crypto", "JSON", "Bytes", "Settings"]),
        tests(
            "RegistrationTests", on: .rules,
            [
                "TestSupport", "Registration", "PushDelivery", "Crypto", "SIPMessage", "SIPGrammar", "Bytes",
                "Addressing",
                "Timekeeping", "Settings",
            ]),
        tests("SIPGrammarTests", on: .values, ["SIPGrammar", "Bytes", "SIPMessage", "Addressing"]),
        tests("SIPMessageTests", on: .outside, ["TestSupport", "SIPMessage", "SIPGrammar", "Bytes", "Addressing"]),
        tests(
            "SIPTransactionsTests", on: .rules,
            ["TestSupport", "SIPTransactions", "SIPGrammar", "Bytes", "Addressing", "Timekeeping", "Collections"]),
        tests("SettingsTests", on: .values, ["TestSupport", "Settings"]),
        tests("StorageTests", on: .outside, ["TestSupport", "Storage"]),
        tests(
            "sippushdTests", on: .shell,
            [
                "TestSupport", "sippushd", "ProxyDaemon", "Control", "HTTPServices", "ProxyRuntime", "PushDelivery",
                "Settings", "Bytes",
                "Addressing", "Timekeeping",
            ]),
        tests(
            "UpstreamRegistrationTests", on: .rules,
            [
                "TestSupport", "UpstreamRegistration", "Registration", "Crypto", "SIPMessage", "SIPGrammar", "Bytes",
                "Addressing", "Timekeeping", "Telemetry",
            ]),
        tests("HEPTests", on: .outside, ["TestSupport", "HEP", "Bytes", "Addressing"]),
        tests("OTLPTests", on: .outside, ["TestSupport", "OTLP", "JSON", "Bytes"]),
        tests("WebSocketTests", on: .outside, ["WebSocket"]),
        tests("TelemetryTests", on: .values, ["TestSupport", "Telemetry", "Bytes", "Timekeeping"]),
        tests("TimekeepingTests", on: .values, ["TestSupport", "Timekeeping"]),
    ]
)

// Some tests alone, with what they need: etc/check builds those of sockets and of the engine in other ways, too.
if let names = Context.environment["SIPPUSHD_TESTS"] {
    let targets = Dictionary(uniqueKeysWithValues: package.targets.map { ($0.name, $0) })
    var needed: Set<String> = []
    var waiting = names.split(separator: " ").map(String.init)
    while let name = waiting.popLast() {
        guard needed.insert(name).inserted, let target = targets[name] else { continue }
        for case .byNameItem(let name, _) in target.dependencies { waiting.append(name) }
    }
    package.targets.removeAll { !needed.contains($0.name) }
    package.products.removeAll()
}
