import JSON
package import Settings

/// One call scenario, as its `flow.yaml` tells it.
package struct Scenario: Equatable, Sendable {
    /// The name of the scenario's folder.
    package let name: String
    package let about: String
    /// Laid over the daemon's usual configuration; a null node when the scenario has no wishes.
    package let daemon: YAMLNode
    package let users: [ScenarioUser]
    package let tokens: [TokenFault]
    package let steps: [ScenarioStep]
    package let pushes: [ExpectedPush]
    /// How long to watch for pushes nobody expects, after everything else has ended.
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

/// Somebody who answers digest challenges, at `example.net`.
package struct ScenarioUser: Hashable, Sendable {
    package let name: String
    package let password: String
}

/// A push token that the sandbox treats otherwise than usual.
package struct TokenFault: Hashable, Sendable {
    package let token: String
    /// A member of the plan that the sandbox takes, such as `status`, with its number or text.
    package let plan: [String: String]
}

/// One thing that is done once in a scenario: a SIPp file is played, a phone's program is run, a control command is given, or
/// something is asked over HTTP.
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
    /// The exit code that counts as success.
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

    /// Whose step this is; `nil` for a command or a request.
    var role: Actor.Role? { program?.role ?? actor?.role }
    /// The place in whose column of the ladder it stands.
    package var place: String? { program?.place ?? actor?.place }
    /// The IP address that its place wishes.
    var address: String? { program?.address ?? actor?.address }

    package var program: Program? {
        guard case .run(let program) = work else { return nil }
        return program
    }
}

/// A request to the daemon's HTTP API, as an app or an application server sends it; curl does.
package struct APIRequest: Hashable, Sendable {
    package let method: String
    /// Path and query. In it and in the body `%user%` and `%domain%` stand for those of the scenario.
    package let target: String
    package let fields: [String: String]
    /// Scopes with commas between them: an API key that has them is shown; `nil` for none.
    package let scopes: String?
    package let body: String?
    /// The status that the request must be answered with.
    package let status: Int
    /// Paths into the answer's JSON and the value there: see ``JSONValue/text(at:)``.
    package let answer: [String: String]

    /// Why an answer is not the one that was expected; `nil` when it is.
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

/// A real phone or a real PBX: a script that becomes its program, and is ended in the end.
///
/// The script finds what it needs in its environment: `PHONE_TARGET` (the daemon's `host:port`), `PHONE_SECURE` (where it
/// speaks TLS) and `PHONE_WEB` (where it speaks WebSocket over TLS) with `PHONE_AUTHORITY` (a file with whose certificates it
/// shows), `PHONE_SANDBOX` (where the push sandbox has its controls), `PHONE_HOME` (a folder that all programs of its place
/// share), and the scenario's keys as `PHONE_USER`, `PHONE_TOKEN` and so on. For a PBX they begin with `PBX_`, and
/// `PBX_ADDRESS` is where the daemon sends calls.
package struct Program: Hashable, Sendable {
    /// Exit code of a program that was killed, as a shell tells it.
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
    /// What its output says when it has received a 200; `nil` when nothing waits for that. A PBX is waited for until it
    /// has its port.
    package let says: String?
    package let end: End
    /// When the program gets that signal.
    package let endsWhen: StartCondition
}

/// Who plays a SIPp file.
package struct Actor: Hashable, Sendable {
    package enum Role: String, CaseIterable, Hashable, Sendable {
        case phone, pbx
    }

    package enum Transport: String, CaseIterable, Hashable, Sendable {
        case udp, tcp

        /// What SIPp's `-t` calls it: one socket for all calls.
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
    /// The place that it talks to; `nil` for the daemon.
    package let peer: String?
    /// SIPp's `-key NAME VALUE`.
    package let keys: [String: String]
}

/// When a step begins, or a program is killed: `delay` after all that is asked for has happened.
package struct StartCondition: Hashable, Sendable {
    package struct Push: Hashable, Sendable {
        package let token: String
        /// The how manieth push for the token, from 1.
        package let nth: Int
    }

    /// Steps that have ended.
    package var after: [String] = []
    /// An actor that has received a 200, or a PBX that runs.
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
    /// What the sandbox answered; `nil` when it does not matter.
    package let status: Int?
    package let service: String?
    /// Paths into the body and the value there: see ``JSONValue/text(at:)``.
    package let fields: [String: String]
}
