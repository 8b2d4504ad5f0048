/// A daemon that was running before the replay.
package struct Target: Hashable, Sendable {
    /// The daemon's SIP address, as `host:port`.
    package let address: String
    /// The file in which the daemon's push sandbox records pushes; `nil` if unknown.
    package var record: String?
    /// The daemon's configuration file, for control commands; `nil` if unknown.
    package var configuration: String?
    /// The local port of the PBX that the daemon trusts; `nil` if unknown.
    package var pbxPort: Int?
    package var domain = Target.usualDomain
    /// The address of the daemon's HTTP API, as `host:port`; `nil` if unknown. The key in `apiKey` must have all scopes
    /// that the scenarios use.
    package var api: String?
    package var apiKey: String?

    /// The SIP domain of the daemons that `scenario-replay` starts.
    package static let usualDomain = "example.net"
}

/// The command-line options of `scenario-replay`.
package struct ReplayOptions: Hashable, Sendable {
    /// The scenarios to play; empty for all.
    package var names: [String] = []
    /// The folder with a folder for each scenario.
    package var scenarios = "sip-scenarios"
    /// The folder with `sippushd` and `push-sandbox`; `nil` for the folder of `scenario-replay`.
    package var programs: String?
    package var target: Target?
    package var isListOnly = false
    /// The file for a page with the ladder diagrams; `nil` for no page.
    package var page: String?

    package static let usage = """
        usage: scenario-replay [NAME ...] [--scenarios FOLDER] [--programs FOLDER] [--list | --html FILE]
                               [--target HOST:PORT [--record FILE] [--config FILE] [--pbx-port PORT]
                                [--domain NAME] [--api HOST:PORT [--api-key KEY]]]
        """

    /// Parses the arguments of the command line.
    ///
    /// - Throws: ``ReplayError`` with the error and the usage, if an argument is wrong.
    package init(_ words: [String]) throws(ReplayError) {
        var values: [String: String] = [:]
        var rest = words[...]
        while let word = rest.popFirst() {
            switch word {
            case "--list": isListOnly = true
            case "--scenarios", "--programs", "--target", "--record", "--config", "--pbx-port", "--domain",
                "--api", "--api-key", "--html":
                guard let value = rest.popFirst() else { throw ReplayError("\(word) needs a value\n\(Self.usage)") }
                values[word] = value
            default:
                if word.hasPrefix("-") { throw ReplayError("unknown option \(word)\n\(Self.usage)") }
                names.append(word)
            }
        }
        scenarios = values["--scenarios"] ?? scenarios
        programs = values["--programs"]
        page = values["--html"]
        if page != nil, isListOnly { throw ReplayError("--html needs played scenarios, not --list\n\(Self.usage)") }
        let port = values["--pbx-port"].map { Int($0) ?? 0 }
        if let port, !(1...65_535).contains(port) { throw ReplayError("--pbx-port needs a port\n\(Self.usage)") }
        if let address = values["--target"] {
            target = Target(
                address: address, record: values["--record"], configuration: values["--config"], pbxPort: port,
                domain: values["--domain"] ?? Target.usualDomain, api: values["--api"], apiKey: values["--api-key"])
        } else if let option = ["--record", "--config", "--pbx-port", "--domain", "--api", "--api-key"]
            .first(where: { values[$0] != nil })
        {
            throw ReplayError("\(option) needs --target\n\(Self.usage)")
        }
    }
}
