import JSON
package import Settings

/// One call scenario, read from its `flow.yaml`.
package struct Scenario: Equatable, Sendable {
    /// The name of the scenario's folder.
    package let name: String
    package let about: String
    /// The settings that are added to the daemon's usual configuration. Without additional settings, the node is null.
    package let daemon: YAMLNode
    package let users: [ScenarioUser]
    package let tokens: [TokenFault]
    package let steps: [ScenarioStep]
    package let pushes: [ExpectedPush]
    /// How long to watch for unexpected pushes after all steps have ended.
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

/// A SIP user in the domain `example.net`, who can answer digest challenges.
package struct ScenarioUser: Hashable, Sendable {
    package let name: String
    package let password: String
}

/// A push token that has a failure plan in the sandbox.
package struct TokenFault: Hashable, Sendable {
    package let token: String
    /// The members of the failure plan, such as `status`, each with its number or text.
    package let plan: [String: String]
}

/// One step of a scenario: it plays a SIPp file, runs the program of a phone or a PBX, runs a control command, or sends
/// an HTTP request.
package struct ScenarioStep: Hashable, Sendable {
    package enum Work: Hashable, Sendable {
        case play(Actor)
        case run(Program)
        /// The arguments of a `sippushd` control command, without `--config`.
        case command([String])
        case request(APIRequest)
    }

    package let name: String
    package let start: StartCondition
    package let work: Work
    /// The exit code that means success.
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

    /// The role of the step's phone, PBX or actor; `nil` for a command or a request.
    var role: Actor.Role? { program?.role ?? actor?.role }
    /// The participant in whose column the ladder shows the step.
    package var place: String? { program?.place ?? actor?.place }
    /// The IP address that the step names for its participant; `nil` for the usual address.
    var address: String? { program?.address ?? actor?.address }

    package var program: Program? {
        guard case .run(let program) = work else { return nil }
        return program
    }
}

/// A request of an app or an application server to the daemon's HTTP API, which curl sends.
package struct APIRequest: Hashable, Sendable {
    package let method: String
    /// The path and the query. In path, query and body, `%user%` and `%domain%` are replaced by the scenario's values.
    package let target: String
    package let fields: [String: String]
    /// The scopes, separated by commas, of the API key that is sent; `nil` if no key is sent.
    package let scopes: String?
    package let body: String?
    /// The expected HTTP status of the answer.
    package let status: Int
    /// The expected values in the JSON of the answer, by their paths: see ``JSONValue/text(at:)``.
    package let answer: [String: String]

    /// Why the answer differs from the expected answer; `nil` if it does not.
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

/// A real phone or a real PBX. A script starts the program of the phone or PBX, which is stopped at the end of the
/// scenario.
///
/// The script gets its parameters in environment variables:
///
/// - `PHONE_TARGET`: the daemon's `host:port`. `PHONE_SECURE` is the daemon's TLS address, and `PHONE_WEB` its address
///   for WebSocket over TLS.
/// - `PHONE_AUTHORITY`: a file with the authority of the daemon's certificates.
/// - `PHONE_SANDBOX`: the address of the push sandbox's controls.
/// - `PHONE_HOME`: a folder that all programs of a participant use together.
/// - `PHONE_USER`, `PHONE_TOKEN` and so on: the keys of the scenario.
///
/// For a PBX, the names begin with `PBX_`, and `PBX_ADDRESS` is the destination of the daemon's calls.
package struct Program: Hashable, Sendable {
    /// The exit code of a program that SIGKILL ended, as a shell reports it.
    package static let killed = 128 + 9

    package enum End: Hashable, Sendable {
        /// The program gets SIGKILL, as when a phone's operating system ends an app.
        case kill
        /// The program gets SIGTERM, as when an operator stops a server.
        case stop
    }

    /// The path of the script in the scenario's folder.
    package let script: String
    /// The name of a program that the scenario needs. If the program is not in `PATH`, the scenario is skipped.
    package let needs: String?
    package let role: Actor.Role
    package let place: String
    /// The IP address of the participant; `nil` for the usual address.
    package let address: String?
    package let keys: [String: String]
    /// The text in the program's output that shows that it has received a 200; `nil` if no step waits for that. A PBX
    /// counts as running when its port is in use.
    package let says: String?
    package let end: End
    /// When the program gets its signal.
    package let endsWhen: StartCondition
}

/// An actor: a process of SIPp, which plays one SIPp file.
package struct Actor: Hashable, Sendable {
    package enum Role: String, CaseIterable, Hashable, Sendable {
        case phone, pbx
    }

    package enum Transport: String, CaseIterable, Hashable, Sendable {
        case udp, tcp

        /// The value of SIPp's option `-t`, with which all calls of the actor use one socket.
        var mode: String {
            switch self {
            case .udp: "u1"
            case .tcp: "t1"
            }
        }
    }

    /// The path of the SIPp file in the scenario's folder.
    package let file: String
    package let role: Role
    package let transport: Transport
    /// The participant that the actor plays. Actors with the same participant have the same local port and column of
    /// the ladder.
    package let place: String
    /// The IP address of the participant; `nil` for the usual address.
    package let address: String?
    /// The participant to which the actor sends; `nil` for the daemon.
    package let peer: String?
    /// The keywords of the SIPp file, which SIPp gets as `-key NAME VALUE`.
    package let keys: [String: String]
}

/// The condition under which a step begins or a program is killed. The step begins, or the program is killed, when all
/// parts are fulfilled and then `delay` has passed.
package struct StartCondition: Hashable, Sendable {
    package struct Push: Hashable, Sendable {
        package let token: String
        /// Which push for the token is meant, counted from 1.
        package let nth: Int
    }

    /// The names of steps that must have ended.
    package var after: [String] = []
    /// The name of an actor or a phone that must have received a 200, or of a PBX that must be running.
    package var answered: String?
    package var push: Push?
    /// The token for which the sandbox must have run its hook.
    package var hook: String?
    package var delay: Duration = .zero

    package static let atOnce = StartCondition()
}

/// A push that must arrive at the sandbox during the scenario.
package struct ExpectedPush: Hashable, Sendable {
    package let token: String
    package let type: String
    /// The expected status of the sandbox's answer; `nil` if any status is allowed.
    package let status: Int?
    package let service: String?
    /// The expected values in the body of the push, by their paths: see ``JSONValue/text(at:)``.
    package let fields: [String: String]
}
