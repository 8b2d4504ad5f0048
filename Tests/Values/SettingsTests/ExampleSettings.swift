import Settings

/// A settings group with one setting of every type, for the tests of this folder.
struct ExampleSettings: SettingsGroup, Equatable {
    var isOpen = false
    var port: UInt16 = 5060
    var patience: Duration = .seconds(30)
    var domain: String?
    var names: [String] = []
    var pauses: [Duration] = [.seconds(1), .seconds(5)]
    var password: Secret?
    var key = "/etc/key.pem"
    var mode = Mode.strict
    var pair = Pair(left: 1, right: 2)
    var inner = Inner()
    var peers: [String: Peer] = [:]
    var providers: [String: Inner] = [:]

    enum Mode: String, CaseIterable {
        case strict
        case ecss10
        case listen
    }

    struct Pair: Equatable {
        var left: Int
        var right: Int
    }

    struct Inner: SettingsGroup, Equatable {
        var low = 1
        var high = 9

        static let schema: [Setting<Inner>] = [
            .integer("low", in: 0...100, \.low, "The low end."),
            .integer("high", in: 0...100, \.high, "The high end."),
        ]

        func complaints() -> [SettingComplaint] {
            low > high ? [SettingComplaint("expected at most high (\(high)), found \(low)", key: "low")] : []
        }
    }

    struct Peer: SettingsGroup, Equatable {
        var address = "192.0.2.1"
        var inner = Inner()

        static let schema: [Setting<Peer>] = [
            .string("address", \.address, "Where the peer is.").required(),
            .group("inner", \.inner, "A group in a group."),
        ]
    }

    static let pairType = SettingType<Pair>.parsed("left:right") { text throws(SettingComplaint) in
        let parts = text.split(separator: ":").compactMap { Int($0) }
        guard parts.count == 2 else { throw SettingComplaint("expected two numbers such as 1:2") }
        return Pair(left: parts[0], right: parts[1])
    } print: {
        "\($0.left):\($0.right)"
    }

    static let schema: [Setting<ExampleSettings>] = [
        .bool("open", \.isOpen, "Whether it is open."),
        .integer("port", in: 1...65_535, \.port, "The port."),
        .duration("hold-timeout", in: .seconds(1)...(.seconds(3600)), \.patience, "How long to wait."),
        .string("domain", \.domain, example: "sip.example.org", "The domain."),
        .list("names", \.names, example: "[anna, bob]", "Who may come in."),
        .list("pauses", of: .duration(), \.pauses, "Waits between tries."),
        .secret("password", \.password, "The password."),
        .path("key", \.key, "The key file."),
        .choice("mode", \.mode, "How strict | how odd."),
        .value("pair", \.pair, pairType, "Two numbers."),
        .group("inner", \.inner, "A group."),
        .named("peers", \.peers, atMost: 2, exampleName: "first", "Named groups with a required key."),
        .named("providers", \.providers, exampleName: "apple", "Named groups."),
    ]
}

/// Reads the settings from the text `yaml`.
func read(_ yaml: String) -> Result<ExampleSettings, SettingsError> {
    Result { () throws(SettingsError) in try ExampleSettings(yaml: Array(yaml.utf8), file: "f.yaml") }
}

func problems(_ yaml: String) -> [String] {
    guard case .failure(let error) = read(yaml) else { return [] }
    return error.problems.map(\.description)
}
