import JSON
package import Settings

/// One call scenario, read from its `flow.yaml`.
package struct Scenario: Equatable, Sendable {
    /// The name of the scenario's folder.
    package let name: String
    package let about: String
    /// Added to the daemon's usual configuration; a null node if the scenario changes nothing.
    package let daemon: YAMLNode
    package let users: [ScenarioUser]
    package let tokens: [TokenFault]
    package let steps: [ScenarioStep]
    package let pushes: [ExpectedPush]
    /// How long to watch for unexpected pushes, after everything else has ended.
    package let quiet: Duration

    package init(
        name: String, about: String = "", daemon: YAMLNode = YAMLNode(.scalar("", isPlain: true), at: .start),
        users: [ScenarioUser] = [], tokens: [TokenFault] = [], steps: [ScenarioStep] = [], pushes: [ExpectedPush] = [],
        quiet: Duration = .milliseconds(300)
    ) {
        self.name = name
        self.about = about
        self.daemon = daemon
        self.users = users
        self.tokens = tokens
        self.steps = steps
        self.pushes = pushes
        self.quiet = quiet
    }
}

/// A user who answers digest challenges, at `example.net`.
package struct ScenarioUser: Hashable, Sendable {
    package let name: String
    package let password: String
}

/// A push token with a failure plan in the sandbox.
package struct TokenFault: Hashable, Sendable {
    package let token: String
    /// A member of the sandbox's plan, such as `status`, with its number or text.
    package let plan: [String: String]
}

/// One step of a scenario: playing a SIPp file, running a phone's program, a control command, or an HTTP request.
package struct ScenarioStep: Hashable, Sendable {
    package enum Work: Hashable, Sendable {
        case play(Actor)
        case run(Program)
        /// The words after `sippushd`, without `--config`.
        case command([String])
        case request(APIRequest)
    }

    package let name: String
    package let start: StartCondition
    package let work: Work
    /// The exit code of success.
    package let exit: Int

    package var actor: Actor? {
        guard case .play(let actor) = work else { return nil }
        return actor
    }

    package var isCommand: Bool {
        if case .command = work { true } else { false }
    }

    package var request: APIRequest? {
        guard case .request(let request) = work else { return nil }
        return request
    }

    /// The role of the step's actor; `nil` for a command or a request.
    var role: Actor.Role? { program?.role ?? actor?.role }
    /// The place whose column of the ladder shows it.
    package var place: String? { program?.place ?? actor?.place }
    /// The IP address that its place requests.
    var address: String? { program?.address ?? actor?.address }

    package var program: Program? {
        guard case .run(let program) = work else { return nil }
        return program
    }
}

/// A request of an app or an application server to the daemon's HTTP API; curl sends it.
package struct APIRequest: Hashable, Sendable {
    package let method: String
    /// Path and query. Here and in the body `%user%` and `%domain%` are replaced by the scenario's values.
    package let target: String
    package let fields: [String: String]
    /// Scopes separated by commas: a key with them is sent; `nil` for no key.
    package let scopes: String?
    package let body: String?
    /// The expected status of the answer.
    package let status: Int
    /// Paths into the answer's JSON and the expected values: see ``JSONValue/text(at:)``.
    package let answer: [String: String]

    /// Why an answer is not the expected one; `nil` if it is.
    package func difference(status: Int, answer text: String) -> String? {
        guard status == self.status else { return "was answered with \(status), expected \(self.status)" }
        let value = JSONValue(text: text)
        for (path, wanted) in answer.sorted(by: { $0.key < $1.key }) {
            let found = value?.text(at: path)
            if found != wanted { return "\(path) in the answer is \(found ?? "not there"), expected \(wanted)" }
        }
        return nil
    }
}

/// A real phone or a real PBX: a script that becomes its program, and is stopped at the end.
///
/// The script gets its parameters in its environment: `PHONE_TARGET` (the daemon's `host:port`), `PHONE_SECURE` (its
/// TLS address), `PHONE_WEB` (its address for WebSocket over TLS), `PHONE_AUTHORITY` (a file with the authority of its
/// certificates), `PHONE_SANDBOX` (the address of the push sandbox's controls), `PHONE_HOME` (a folder that all
/// programs of its place share), and the scenario's keys as `PHONE_USER`, `PHONE_TOKEN` and so on. For a PBX they begin
/// with `PBX_`, and `PBX_ADDRESS` is the destination of the daemon's calls.
package struct Program: Hashable, Sendable {
    /// Exit code of a killed program, as a shell reports it.
    package static let killed = 128 + 9

    package enum End: Hashable, Sendable {
        /// SIGKILL, as a phone's system ends apps.
        case kill
        /// SIGTERM, as an operator ends a server.
        case stop
    }

    /// Relative to the scenario's folder.
    package let script: String
    /// Looked for in `PATH`; the scenario is skipped without it.
    package let needs: String?
    package let role: Actor.Role
    package let place: String
    /// The IP address of its place; `nil` for the usual one.
    package let address: String?
    package let keys: [String: String]
    /// The output that shows that it received a 200; `nil` if no step waits for that. A PBX counts as running when it
    /// has its port.
    package let says: String?
    package let end: End
    /// When the program gets that signal.
    package let endsWhen: StartCondition
}

/// The actor that plays a SIPp file.
package struct Actor: Hashable, Sendable {
    package enum Role: String, CaseIterable, Hashable, Sendable {
        case phone, pbx
    }

    package enum Transport: String, CaseIterable, Hashable, Sendable {
        case udp, tcp

        /// The value of SIPp's `-t`: one socket for all calls.
        var mode: String {
            switch self {
            case .udp: "u1"
            case .tcp: "t1"
            }
        }
    }

    /// Relative to the scenario's folder.
    package let file: String
    package let role: Role
    package let transport: Transport
    /// Actors of one place share a local port and a column of the ladder.
    package let place: String
    /// The IP address of its place; `nil` for the usual one.
    package let address: String?
    /// The place to which it sends; `nil` for the daemon.
    package let peer: String?
    /// SIPp's `-key NAME VALUE`.
    package let keys: [String: String]
}

/// When a step begins, or a program is killed: `delay` after all conditions are fulfilled.
package struct StartCondition: Hashable, Sendable {
    package struct Push: Hashable, Sendable {
        package let token: String
        /// The number of the push for the token, from 1.
        package let nth: Int
    }

    /// Steps that have ended.
    package var after: [String] = []
    /// An actor that received a 200, or a PBX that runs.
    package var answered: String?
    package var push: Push?
    /// A token for which the sandbox has run its hook.
    package var hook: String?
    package var delay: Duration = .zero

    package static let atOnce = StartCondition()
}

/// A push that the scenario must cause.
package struct ExpectedPush: Hashable, Sendable {
    package let token: String
    package let type: String
    /// The sandbox's answer; `nil` if it does not matter.
    package let status: Int?
    package let service: String?
    /// Paths into the body and the expected values: see ``JSONValue/text(at:)``.
    package let fields: [String: String]
}
