import Foundation
import JSON
import Settings

/// A daemon and its push sandbox, with which a scenario is played. The replay starts daemon and sandbox for the
/// scenario, unless they were already running.
final class Stage {
    /// The daemon's SIP address, as `host:port`.
    let target: String
    /// The daemon's TLS address (`secureTarget`), and the file of its certificate's authority (`authority`); `nil` if
    /// unknown.
    let secureTarget: String?
    let authority: String?
    /// The daemon's address for WebSocket over TLS, with the same certificate as `secureTarget`; `nil` if unknown.
    let webTarget: String?
    /// The address of the sandbox's control resources; `nil` if unknown.
    private(set) var sandbox: String?
    /// The file in which the sandbox records pushes; `nil` if unknown, so that pushes are not checked.
    let record: URL?
    let domain: String
    /// The callee in scenarios that name no callee. If the daemon was already running, each run uses a new name,
    /// because the daemon keeps the contacts of earlier runs.
    let user: String
    /// The file to which the sandbox's hook writes each push's token on a line; `nil` if the replay has not started the
    /// sandbox.
    let hooked: URL?
    /// The daemon's configuration file, for control commands; `nil` if unknown.
    let configuration: String?
    /// The address of the daemon's HTTP API; `nil` if unknown.
    let api: String?
    /// The scenario's API keys, by their scopes.
    private var keys: [String: String] = [:]
    private let anyKey: String?
    /// The texts that the keys of actors can contain as `%NAME%`: endpoints, percent-encoded, and keys of subscriptions.
    private(set) var fillings: [String: String] = [:]
    private let sippushd: String
    private let folder: URL
    private var children: [Child] = []

    /// Uses a daemon that is already running.
    init(target: Target, programs: URL, folder: URL) {
        self.target = target.address
        record = target.record.map { URL(filePath: $0) }
        hooked = nil
        secureTarget = nil
        authority = nil
        webTarget = nil
        configuration = target.configuration
        domain = target.domain
        api = target.api
        anyKey = target.apiKey
        user = "bob-\(Int.random(in: 1000...9999))"
        sippushd = programs.appending(path: "sippushd").path
        self.folder = folder
    }

    /// Starts a sandbox and a daemon for one scenario.
    ///
    /// - Parameters:
    ///   - scenario: the scenario, whose settings are added to the daemon's.
    ///   - programs: the folder with `sippushd` and `push-sandbox`.
    ///   - folder: an empty folder for all files of the scenario.
    ///   - places: the address of each participant.
    ///   - ports: assigns the daemon's ports.
    /// - Throws: ``ReplayError`` if the daemon or the sandbox does not start; none is left running.
    init(
        for scenario: Scenario, programs: URL, folder: URL, places: [String: Place], ports: inout LocalPorts
    ) throws(ReplayError) {
        let record = folder.appending(path: "pushes.jsonl")
        let configuration = folder.appending(path: "sippushd.yaml")
        let ports = Ports(
            sip: try ports.take(), secure: try ports.take(), web: try ports.take(), api: try ports.take())
        api = "127.0.0.1:\(ports.api)"
        anyKey = nil
        sippushd = programs.appending(path: "sippushd").path
        target = "127.0.0.1:\(ports.sip)"
        secureTarget = "localhost:\(ports.secure)"
        webTarget = "localhost:\(ports.web)"
        authority = folder.appending(path: "ca.pem").path
        self.record = record
        let hooked = folder.appending(path: "hooked")
        self.hooked = hooked
        self.configuration = configuration.path
        domain = Target.usualDomain
        user = "bob"
        self.folder = folder

        let provider = try Child(
            "push-sandbox", programs.appending(path: "push-sandbox").path,
            [
                "--listen", "127.0.0.1:0", "--listen-plain", "127.0.0.1:0", "--state", folder.path,
                "--record", record.path, "--on-push", "echo \"$PUSH_TOKEN\" >>'\(hooked.path)'",
            ], log: folder.appending(path: "push-sandbox.log"))
        children.append(provider)
        do throws(ReplayError) {
            try provider.wait(for: "its addresses") { provider.output.contains("plain=") }
            let addresses = Self.addresses(in: provider.output)
            guard let tls = addresses["tls"], let plain = addresses["plain"] else {
                throw ReplayError("push-sandbox has not printed its addresses\n\(provider.lastWords)")
            }
            self.sandbox = plain
            for fault in scenario.tokens { try Self.refuse(fault, plain: plain, folder: folder) }
            for name in scenario.subscriptions { try subscribe(name, plain: plain) }
            try Self.write(
                Self.configuration(
                    for: scenario, folder: folder, ports: ports, places: places, tls: tls, plain: plain),
                to: configuration)
            let daemon = try Child(
                "sippushd", sippushd, ["serve", "--config", configuration.path],
                log: folder.appending(path: "sippushd.log"))
            children.append(daemon)
            try daemon.wait(for: "its ports") { LocalPorts.isServed(ports.sip) && LocalPorts.isListening(ports.api) }
            for user in scenario.users { try add(user) }
            for scopes in Set(scenario.steps.compactMap { $0.request?.scopes }).sorted() { try addKey(scopes) }
        } catch {
            stop()
            throw error
        }
    }

    /// Starts a control command of the daemon as a child process.
    func command(_ words: [String], log: URL, input: String = "") throws(ReplayError) -> Child {
        guard let configuration else { throw ReplayError("control commands need --config") }
        let arguments = words.map(filled) + ["--config", configuration]
        return try Child(words.joined(separator: " "), sippushd, arguments, log: log, input: input)
    }

    /// Starts curl with a request to the HTTP API; curl prints the answer's status, and writes its body to the file
    /// `answer`.
    func request(_ request: APIRequest, _ name: String, log: URL, answer: URL) throws(ReplayError) -> Child {
        guard let api else { throw ReplayError("requests need --api") }
        var words = [
            "--silent", "--show-error", "--max-time", "10", "--output", answer.path, "--write-out", "%{http_code}",
        ]
        words += request.method == "HEAD" ? ["--head"] : ["--request", request.method]
        for (name, value) in request.fields.sorted(by: { $0.key < $1.key }) {
            words += ["--header", "\(name): \(value)"]
        }
        if let scopes = request.scopes {
            guard let key = anyKey ?? keys[scopes] else { throw ReplayError("requests need --api-key") }
            words += ["--header", "Authorization: Bearer \(key)"]
        }
        if let body = request.body { words += ["--data-raw", filled(body)] }
        return try Child(name, "curl", words + ["http://\(api)\(filled(request.target))"], log: log)
    }

    /// The target and the body of a request, as curl sends them.
    func sent(_ request: APIRequest) -> String {
        "\(request.method) \(filled(request.target))" + (request.body.map { "\n\n" + filled($0) } ?? "")
    }

    /// The API keys of the scenario.
    var secrets: [String] { keys.values + (anyKey.map { [$0] } ?? []) }

    private func filled(_ text: String) -> String {
        text.replacing("%user%", with: user).replacing("%domain%", with: domain)
    }

    func stop() {
        for child in children.reversed() { child.stop() }
        children = []
    }

    /// The last output of daemon and sandbox, and the exit code of each program that has ended.
    var lastWords: [String] {
        children.filter { !$0.lastWords.isEmpty }.map { child in
            child.exit.map { "      \(child.name) ended with \($0)\n" + child.lastWords } ?? child.lastWords
        }
    }

    private func add(_ user: ScenarioUser) throws(ReplayError) {
        let command = try command(
            ["user", "add", "\(user.name)@\(domain)", "--password-stdin"],
            log: folder.appending(path: "user-\(user.name).log"), input: user.password + "\n")
        try Self.finish(command)
    }
}

extension Stage {
    private func addKey(_ scopes: String) throws(ReplayError) {
        let command = try command(
            ["apikey", "add", "replay-\(keys.count)", "--scope", scopes],
            log: folder.appending(path: "key-\(keys.count).log"))
        try Self.finish(command)
        keys[scopes] = command.output.trimmingCharacters(in: .whitespacesAndNewlines)
    }
}

// MARK: Setting up

extension Stage {
    /// Creates a subscription at the sandbox's push server of UnifiedPush.
    private func subscribe(_ name: String, plain: String) throws(ReplayError) {
        let answer = folder.appending(path: "subscription-\(name).json")
        let curl = try Child(
            "curl", "curl",
            [
                "--silent", "--show-error", "--fail", "--request", "PUT", "--data", #"{"service":"unifiedpush"}"#,
                "--output", answer.path, "http://\(plain)/sandbox/subscriptions/\(name)",
            ], log: folder.appending(path: "subscription-\(name).log"))
        try Self.finish(curl)
        guard let bytes = try? Data(contentsOf: answer), let subscription = try? JSONValue(Array(bytes)),
            let endpoint = subscription["endpoint"]?.string, let key = subscription["p256dh"]?.string,
            let secret = subscription["auth"]?.string
        else { throw ReplayError("push-sandbox has created no subscription \(name)") }
        let escaped = endpoint.addingPercentEncoding(withAllowedCharacters: .alphanumerics)
        fillings["endpoint:\(name)"] = escaped ?? endpoint
        fillings["keys:\(name)"] = "\(key).\(secret)"
    }
}

extension Stage {
    /// The local ports on which the daemon listens.
    private struct Ports {
        let sip, secure, web, api: Int
    }

    /// The values of `tls=` and `plain=` in the first line that the sandbox prints.
    static func addresses(in output: String) -> [String: String] {
        var found: [String: String] = [:]
        for word in output.split(whereSeparator: \.isWhitespace) {
            let parts = word.split(separator: "=", maxSplits: 1)
            if let name = parts.first, let value = parts.last, parts.count == 2 { found[String(name)] = String(value) }
        }
        return found
    }

    private static func refuse(_ fault: TokenFault, plain: String, folder: URL) throws(ReplayError) {
        let members = fault.plan.sorted { $0.key < $1.key }.map { key, value in
            "\"\(key)\":" + (Int64(value) == nil ? "\"\(value)\"" : value)
        }
        let body = "{" + members.joined(separator: ",") + "}"
        let url = "http://\(plain)/sandbox/tokens/\(fault.token)"
        let curl = try Child(
            "curl", "curl", ["--silent", "--show-error", "--fail", "--request", "PUT", "--data", body, url],
            log: folder.appending(path: "token-\(fault.token).log"))
        try finish(curl)
    }

    fileprivate static func finish(_ child: Child) throws(ReplayError) {
        let end = Date.now.addingTimeInterval(10)
        while child.exit == nil, Date.now < end { Thread.sleep(forTimeInterval: 0.005) }
        guard child.exit == 0 else {
            child.stop()
            throw ReplayError("\(child.name) failed\n\(child.lastWords)")
        }
    }

    private static func write(_ text: String, to file: URL) throws(ReplayError) {
        do { try Data(text.utf8).write(to: file) } catch { throw ReplayError("cannot write \(file.path): \(error)") }
    }

    private static func configuration(
        for scenario: Scenario, folder: URL, ports: Ports, places: [String: Place], tls: String, plain: String
    ) throws(ReplayError) -> String {
        let pbxes = Set(scenario.steps.filter { $0.role == .pbx }.compactMap(\.place))
            .compactMap { places[$0] }.sorted { $0.port < $1.port }
        let trusted = pbxes.map { "\"\($0)\"" }.joined(separator: ", ")
        let upstream = pbxes.first.map { "upstream: \"sip:\($0)\"" } ?? ""
        let usual = """
            domains: [\(Target.usualDomain)]
            listen: ["udp:127.0.0.1:\(ports.sip)", "tcp:127.0.0.1:\(ports.sip)", "tls:127.0.0.1:\(ports.secure)",
              "wss:127.0.0.1:\(ports.web)"]
            tls:
              cert-file: "\(folder.path)/ca.pem"
              key-file: "\(folder.path)/server-key.pem"
            store: "\(folder.path)/store.db"
            control: "\(folder.path)/control.sock"
            auth: off
            trusted: [\(trusted)]
            \(upstream)
            upstream-check:
              interval: 0s
            call:
              ring-timeout: 5s
            log:
              level: info
            api:
              listen: ["127.0.0.1:\(ports.api)"]
            push:
              fcm:
                enabled: true
                body-format: legacy
                endpoint: "http://\(plain)"
                server-key: test
              apns:
                enabled: true
                endpoint: "https://\(tls)"
                ca-file: "\(folder.path)/ca.pem"
                team-id: TEAM123456
                key-id: KEY1234567
                key-file: "\(folder.path)/apns-key.p8"
              webpush:
                hosts: ["\(tls)"]
                ca-file: "\(folder.path)/ca.pem"
                vapid-key-file: "\(folder.path)/apns-key.p8"
                vapid-contact: "mailto:push@example.net"
              acrobits:
                endpoint: "http://\(plain)"
              rustore:
                endpoint: "http://\(plain)"
                project-id: shop
                service-token: rustore-service
              hms:
                endpoint: "http://\(plain)"
                token-endpoint: "http://\(plain)/oauth2/v3/token"
                app-id: "100123456"
                client-secret: hms-secret
            """
        let places = places.mapValues(\.description).merging(["sandbox": tls]) { place, _ in place }
        do throws(SettingsError) {
            let text = try YAMLNode.read(Array(usual.utf8), file: "usual.yaml").overlaid(with: scenario.daemon).yaml
            return places.reduce(text) { $0.replacing("%\($1.key)%", with: $1.value) }
        } catch {
            throw ReplayError("\(error)")
        }
    }
}
