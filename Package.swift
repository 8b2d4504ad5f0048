// swift-tools-version: 6.2
// One entry per target, sorted by layer from the bottom up; docs/Modules.md says what each is for.
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

// Swift's libraries stand inside the programs. A call goes through much code, each piece of it seldom: with every jump into
// another library through a table, and to another page, it takes a seventh more of the processor.
// Tests that are built in release mode are not such programs.
let inside = Context.environment["SIPPUSHD_TESTS"] == nil ? ["-static-stdlib"] : []

// Whether two accesses to one place overlap is checked in debug builds, which the tests run. It costs each message six percent.
// Nor does each closure ask once more whether it runs on its actor: `assumeIsolated`, which calls it, has just asked.
let unchecked = ["-enforce-exclusivity=unchecked", "-Xfrontend", "-disable-dynamic-actor-isolation"]
let released = strict + [.unsafeFlags(unchecked + inside, .when(configuration: .release))]

func module(_ name: String, _ dependencies: [Target.Dependency] = []) -> Target {
    .target(name: name, dependencies: dependencies, swiftSettings: released)
}

func program(_ name: String, _ dependencies: [Target.Dependency], libraries: [String] = []) -> Target {
    .executableTarget(
        name: name, dependencies: dependencies, swiftSettings: released,
        linkerSettings: [.unsafeFlags(inside + ["-use-ld=lld"], .when(configuration: .release))]
            + libraries.map { .linkedLibrary($0, .when(configuration: .release)) })
}

// A call takes memory 140 times, and gives it back. This library stands in for glibc's allocator, which needs twice as many
// instructions for both. Debug builds are without it, as the sanitizers bring their own.
let allocator = (library: "mimalloc", debian: "libmimalloc-dev")

func tests(_ name: String, _ dependencies: [Target.Dependency]) -> Target {
    .testTarget(name: name, dependencies: dependencies, swiftSettings: strict)
}

func library(_ name: String, pkgConfig: String?, debian: String) -> Target {
    .systemLibrary(name: name, path: "Sources/\(name)", pkgConfig: pkgConfig, providers: [.apt([debian])])
}

let package = Package(
    name: "sippushd",
    products: [
        .executable(name: "sippushd", targets: ["sippushd"]),
        .executable(name: "push-sandbox", targets: ["push-sandbox"]),
    ],
    targets: [
        // C libraries, each behind one module
        library("CAres", pkgConfig: "libcares", debian: "libc-ares-dev"),
        library("CCurl", pkgConfig: "libcurl", debian: "libcurl4-openssl-dev"),
        library("CEvent", pkgConfig: "libevent_openssl", debian: "libevent-dev"),
        library("CLZ4", pkgConfig: "liblz4", debian: "liblz4-dev"),
        library("CNGHTTP2", pkgConfig: "libnghttp2", debian: "libnghttp2-dev"),
        library("COpenSSL", pkgConfig: "openssl", debian: "libssl-dev"),
        // Not a system library: its allocators need a thread's own state, which is a few lines of C.
        .target(name: "COsip2", linkerSettings: [.linkedLibrary("osipparser2")]),
        library("CSQLite", pkgConfig: "sqlite3", debian: "libsqlite3-dev"),
        // It has no description for pkg-config.
        library("CWSlay", pkgConfig: nil, debian: "libwslay-dev"),
        library("CYAML", pkgConfig: "yaml-0.1", debian: "libyaml-dev"),

        // Layer 1: values
        module("Addressing", ["Collections"]),
        module("Bytes"),
        module("SIPGrammar", ["Bytes", "Collections", "Addressing"]),
        module("JSON", ["Bytes"]),
        module("Timekeeping"),
        module("Collections"),
        module("Telemetry", ["Bytes", "Timekeeping"]),
        module("Settings", ["CYAML"]),

        // Layer 2: the outside world
        module("SIPMessage", ["COsip2", "SIPGrammar", "Bytes", "Collections", "Addressing"]),
        module("Crypto", ["COpenSSL", "Bytes", "Timekeeping"]),
        module("Reactor", ["CEvent", "Crypto", "Addressing", "Timekeeping", "Telemetry"]),
        module("Resolver", ["CAres", "Reactor", "Addressing", "Timekeeping"]),
        module("HTTPServer", ["Reactor", "Crypto", "Addressing", "Collections", "Timekeeping"]),
        module("WebSocket", ["CWSlay", "Crypto", "Bytes"]),
        module("Storage", ["CSQLite"]),
        module("Compression", ["CLZ4", "Bytes"]),
        module("HTTP2", ["CNGHTTP2"]),
        module("HTTPClient", ["Resolver", "Reactor", "Bytes", "Addressing", "Timekeeping"]),
        module("HTTP1Connections", ["CCurl", "HTTPClient", "Reactor", "Addressing", "Timekeeping"]),
        module("HTTP2Connections", ["HTTP2", "HTTPClient", "Reactor", "Crypto", "Addressing", "Timekeeping"]),

        // Layer 3: rules
        module(
            "PushDelivery",
            ["JSON", "SIPGrammar", "Bytes", "Addressing", "Collections", "Timekeeping", "Telemetry", "Settings"]),
        module(
            "Registration",
            [
                "PushDelivery", "SIPGrammar", "Bytes", "Addressing", "Collections", "Timekeeping", "Telemetry",
                "Settings",
            ]),
        module("SIPTransactions", ["SIPGrammar", "Bytes", "Addressing", "Collections", "Timekeeping", "Telemetry"]),
        module(
            "ProxyCore",
            [
                "PushDelivery", "Registration", "SIPTransactions", "SIPGrammar", "Bytes", "Addressing", "Collections",
                "Timekeeping", "Telemetry", "Settings",
            ]),

        // Layer 4: shell
        module(
            "PushSending",
            [
                "ProxyCore", "PushDelivery", "Registration", "HTTP2Connections", "HTTP1Connections", "HTTPClient",
                "Resolver", "Reactor", "Crypto", "JSON", "Bytes", "Addressing", "Timekeeping", "Telemetry", "Settings",
            ]),
        module(
            "Persistence",
            [
                "ProxyCore", "PushDelivery", "Registration", "Storage", "Reactor", "Crypto", "Bytes", "Addressing",
                "Collections", "Timekeeping", "Telemetry",
            ]),
        module(
            "ProxyRuntime",
            [
                "Persistence", "PushSending", "ProxyCore", "PushDelivery", "Registration", "HTTPServer", "WebSocket",
                "Resolver", "Reactor", "Crypto", "Compression", "SIPMessage", "SIPGrammar", "Bytes", "Addressing",
                "Collections", "Timekeeping", "Telemetry", "Settings",
            ]),
        module(
            "HTTPServices",
            [
                "ProxyRuntime", "Persistence", "PushSending", "ProxyCore", "PushDelivery", "Registration",
                "HTTP1Connections", "HTTPClient", "HTTPServer", "Resolver", "Reactor", "Crypto", "JSON", "SIPGrammar",
                "Bytes", "Addressing", "Collections", "Timekeeping", "Telemetry", "Settings",
            ]),
        module(
            "Control",
            [
                "HTTPServices", "ProxyRuntime", "Persistence", "PushSending", "ProxyCore", "PushDelivery",
                "Registration", "HTTPServer", "Reactor", "Crypto", "JSON", "SIPGrammar", "Bytes", "Addressing",
                "Timekeeping", "Telemetry",
            ]),
        module(
            "ProxyDaemon",
            [
                "Control", "HTTPServices", "ProxyRuntime", "Persistence", "PushSending", "ProxyCore", "PushDelivery",
                "Registration", "HTTPServer", "Resolver", "Reactor", "Crypto", "SIPMessage", "SIPGrammar", "Bytes",
                "Addressing", "Timekeeping", "Telemetry", "Settings",
            ]),
        program(
            "sippushd",
            [
                "ProxyDaemon", "Control", "HTTPServices", "ProxyRuntime", "PushSending", "PushDelivery",
                "HTTP1Connections", "HTTPClient", "Reactor", "Settings", "Telemetry", "Timekeeping",
            ], libraries: [allocator.library]),
        module(
            "PushSandbox",
            ["HTTP2", "HTTPServer", "Reactor", "Crypto", "JSON", "SIPGrammar", "Bytes", "Addressing", "Timekeeping"]),
        program("push-sandbox", ["PushSandbox", "Reactor", "Crypto", "Addressing", "Timekeeping"]),
        module("ScenarioReplay", ["JSON", "Settings", "Timekeeping"]),
        program("scenario-replay", ["ScenarioReplay"]),

        // Tests
        // What the tests of everything that lives on an event loop share.
        .target(
            name: "LoopTesting",
            dependencies: [
                "ScenarioReplay", "HTTP2Connections", "HTTP1Connections", "HTTPClient", "Reactor", "Crypto",
                "Addressing",
            ],
            path: "Tests/LoopTesting", swiftSettings: strict),
        module(
            "TestSupport",
            [
                "ProxyCore", "PushDelivery", "Registration", "SIPTransactions", "Storage", "Crypto", "Compression",
                "SIPMessage", "SIPGrammar", "Bytes", "Addressing", "Telemetry", "Timekeeping",
            ]),
        tests("AddressingTests", ["Addressing"]),
        tests("BytesTests", ["Bytes"]),
        tests("CollectionsTests", ["TestSupport", "Collections"]),
        tests("CompressionTests", ["TestSupport", "Compression", "Bytes"]),
        tests("CryptoTests", ["TestSupport", "Crypto", "Bytes", "Timekeeping"]),
        tests("HTTP2Tests", ["HTTP2"]),
        tests(
            "HTTPClientTests",
            [
                "TestSupport", "ProviderTesting", "HTTP1Connections", "HTTP2Connections", "HTTPClient", "HTTP2",
                "LoopTesting", "Reactor", "Crypto", "Addressing", "Timekeeping",
            ]),
        tests(
            "HTTPServerTests",
            [
                "TestSupport", "HTTPServer", "HTTP1Connections", "HTTPClient", "LoopTesting", "Reactor", "Crypto",
                "Addressing", "Timekeeping",
            ]),
        tests("JSONTests", ["TestSupport", "JSON", "Bytes"]),
        tests(
            "ProxyCoreTests",
            [
                "ProxyCore", "Crypto", "TestSupport", "PushDelivery", "Registration", "SIPTransactions", "SIPMessage",
                "SIPGrammar", "Bytes", "Addressing", "Telemetry", "Timekeeping",
            ]),
        .target(
            name: "StoreTesting",
            dependencies: [
                "Persistence", "TestSupport", "PushDelivery", "Storage", "Bytes", "Addressing", "Telemetry",
                "Timekeeping",
            ],
            path: "Tests/StoreTesting", swiftSettings: strict),
        tests(
            "PersistenceTests",
            [
                "Persistence", "StoreTesting", "LoopTesting", "TestSupport", "ProxyCore", "PushDelivery",
                "Registration", "Storage", "Reactor", "Crypto", "Bytes", "Addressing", "Telemetry", "Timekeeping",
            ]),
        tests(
            "ProxyRuntimeTests",
            [
                "ProxyRuntime", "Persistence", "PushSending", "StoreTesting", "ProviderTesting", "LoopTesting",
                "TestSupport", "ProxyCore", "PushDelivery", "Registration", "Resolver", "Reactor", "Crypto",
                "SIPMessage", "Settings", "SIPGrammar", "Bytes", "Addressing", "Timekeeping", "Telemetry",
            ]),
        tests(
            "HTTPServicesTests",
            [
                "HTTPServices", "ProxyRuntime", "Persistence", "StoreTesting", "ProviderTesting", "PushSandbox",
                "LoopTesting", "TestSupport", "ProxyCore", "PushDelivery", "Registration", "HTTPClient", "HTTPServer",
                "Reactor", "Storage", "Crypto", "JSON", "Settings", "SIPGrammar", "Bytes", "Addressing", "Timekeeping",
                "Telemetry",
            ]),
        tests(
            "ControlTests",
            [
                "Control", "HTTPServices", "ProxyRuntime", "Persistence", "PushSending", "StoreTesting",
                "ProviderTesting", "LoopTesting", "TestSupport", "ProxyCore", "PushDelivery", "Registration",
                "HTTP1Connections", "HTTPClient", "HTTPServer", "Reactor", "Storage", "Crypto", "SIPMessage",
                "SIPGrammar", "Bytes", "Addressing", "Timekeeping", "Telemetry", "JSON",
            ]),
        tests(
            "ProxyDaemonTests",
            [
                "ProxyDaemon", "Control", "HTTPServices", "ProxyRuntime", "Persistence", "PushSending", "StoreTesting",
                "ProviderTesting", "PushSandbox", "LoopTesting", "TestSupport", "ProxyCore", "PushDelivery",
                "Registration", "HTTP1Connections", "HTTPClient", "HTTPServer", "Reactor", "Storage", "Crypto",
                "SIPMessage", "JSON", "Settings", "SIPGrammar", "Bytes", "Addressing", "Timekeeping", "Telemetry",
            ]),
        .target(
            name: "ProviderTesting",
            dependencies: [
                "TestSupport", "LoopTesting", "PushSandbox", "PushDelivery", "Reactor", "Crypto", "JSON", "Bytes",
                "Addressing",
                "Timekeeping",
            ],
            path: "Tests/ProviderTesting", swiftSettings: strict),
        tests(
            "PushSendingTests",
            [
                "PushSending", "PushSandbox", "ProviderTesting", "LoopTesting", "TestSupport", "ProxyCore",
                "PushDelivery",
                "Registration", "HTTPServer", "Reactor", "Crypto", "JSON", "Settings", "Bytes", "Addressing",
                "Timekeeping",
                "Telemetry",
            ]),
        tests(
            "PushDeliveryTests",
            ["TestSupport", "PushDelivery", "JSON", "Settings", "SIPGrammar", "Bytes", "Addressing", "Timekeeping"]),
        tests(
            "PushSandboxTests",
            [
                "TestSupport", "PushSandbox", "LoopTesting", "Reactor", "Crypto", "JSON", "Bytes", "Addressing",
                "Timekeeping",
            ]),
        tests(
            "ReactorTests",
            ["TestSupport", "LoopTesting", "ScenarioReplay", "Reactor", "Crypto", "Addressing", "Timekeeping"]),
        tests("ResolverTests", ["TestSupport", "Resolver", "LoopTesting", "Reactor", "Addressing", "Timekeeping"]),
        tests("ScenarioReplayTests", ["ScenarioReplay", "Settings"]),
        tests(
            "RegistrationTests",
            [
                "TestSupport", "Registration", "PushDelivery", "Crypto", "SIPMessage", "SIPGrammar", "Bytes",
                "Addressing",
                "Timekeeping", "Settings",
            ]),
        tests("SIPGrammarTests", ["SIPGrammar", "Bytes", "SIPMessage", "Addressing"]),
        tests("SIPMessageTests", ["TestSupport", "SIPMessage", "SIPGrammar", "Bytes", "Addressing"]),
        tests(
            "SIPTransactionsTests",
            ["TestSupport", "SIPTransactions", "SIPGrammar", "Bytes", "Addressing", "Timekeeping"]),
        tests("SettingsTests", ["TestSupport", "Settings"]),
        tests("StorageTests", ["TestSupport", "Storage"]),
        tests(
            "sippushdTests",
            ["TestSupport", "sippushd", "Control", "PushDelivery", "Bytes", "Addressing", "Timekeeping"]),
        tests("WebSocketTests", ["WebSocket"]),
        tests("TelemetryTests", ["TestSupport", "Telemetry", "Bytes", "Timekeeping"]),
        tests("TimekeepingTests", ["TestSupport", "Timekeeping"]),
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
