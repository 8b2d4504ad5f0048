import JSON
package import Settings

/// A call scenario, read from its file `flow.yaml`.
package struct Scenario: Equatable, Sendable {
    /// The name of the scenario, which is the name of its folder.
    package let name: String
    package let about: String
    /// The settings that the scenario adds to the daemon's usual configuration, or a null node.
    package let daemon: YAMLNode
    package let users: [ScenarioUser]
    package let tokens: [TokenFault]
    /// The names of subscriptions at the sandbox's push server of UnifiedPush, which exist before the first step.
    package let subscriptions: [String]
    package let steps: [ScenarioStep]
    package let pushes: [ExpectedPush]
    /// How long the replay waits for unexpected pushes after the last step.
    package let quiet: Duration

    package init(
        name: String, about: String = "", daemon: YAMLNode = YAMLNode(.scalar("", isPlain: true), at: .start),
        users: [ScenarioUser] = [], tokens: [TokenFault] = [], subscriptions: [String] = [],
        steps: [ScenarioStep] = [], pushes: [ExpectedPush] = [], quiet: Duration = .milliseconds(300)
    ) {
        self.name = name
        self.about = about
        self.daemon = daemon
        self.users = users
        self.tokens = tokens
        self.subscriptions = subscriptions
        self.steps = steps
        self.pushes = pushes
        self.quiet = quiet
    }
}

/// A SIP user in the domain `example.net`, with the password that the daemon knows.
package struct ScenarioUser: Hashable, Sendable {
    package let name: String
    package let password: String
}

/// A push token for which the sandbox answers with failures.
package struct TokenFault: Hashable, Sendable {
    package let token: String
    /// The members of the failure plan, such as `status`, with their numbers or texts.
    package let plan: [String: String]
}

/// One step: a SIPp file, a phone's or PBX's program, a control command of the daemon, or an HTTP request.
package struct ScenarioStep: Hashable, Sendable {
    package enum Work: Hashable, Sendable {
        case play(Actor)
        case run(Program)
        /// A `sippushd` control command with the given arguments, and with `--config`.
        case command([String])
        case request(APIRequest)
    }

    package let name: String
    package let start: StartCondition
    package let work: Work
    /// The exit code of a successful step.
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

    /// The role of the program or SIPp process; `nil` for a command or a request.
    var role: Actor.Role? { program?.role ?? actor?.role }
    /// The participant in whose column the ladder diagram shows the step; `nil` for a command or a request.
    package var place: String? { program?.place ?? actor?.place }
    /// The IP address that the step sets for its participant, if any.
    var address: String? { program?.address ?? actor?.address }

    package var program: Program? {
        guard case .run(let program) = work else { return nil }
        return program
    }
}

/// A request to the daemon's HTTP API that curl sends for an app or an application server.
package struct APIRequest: Hashable, Sendable {
    package let method: String
    /// The path and the query of the request. In `target` and `body`, `%user%` and `%domain%` stand for the scenario's
    /// user and domain.
    package let target: String
    package let fields: [String: String]
    /// The scopes of the request's API key, separated by commas; `nil` for no API key.
    package let scopes: String?
    package let body: String?
    /// The HTTP status that the answer must have.
    package let status: Int
    /// The expected values of the answer's JSON, by their paths: see ``JSONValue/text(at:)``.
    package let answer: [String: String]

    /// The first difference between an answer and the expected answer, if any.
    package func difference(status: Int, answer text: String) -> Mismatch? {
        guard status == self.status else {
            return Mismatch(name: "status", phrase: "was answered with", seen: "\(status)", expected: "\(self.status)")
        }
        let value = JSONValue(text: text)
        for (path, wanted) in answer.sorted(by: { $0.key < $1.key }) {
            let found = value?.text(at: path)
            guard found != wanted else { continue }
            return Mismatch(
                name: path, phrase: "\(path) in the answer is", seen: found ?? "not there", expected: wanted)
        }
        return nil
    }
}

/// The program of a real phone or PBX. A script starts the program, and the replay ends the program during the
/// scenario.
///
/// The script gets its parameters in environment variables:
///
/// - `PHONE_TARGET`: the daemon's `host:port`. `PHONE_SECURE`: the daemon's TLS address; `PHONE_WEB`: its address for
///   WebSocket over TLS.
/// - `PHONE_AUTHORITY`: the file of the authority that issued the daemon's certificates.
/// - `PHONE_SANDBOX`: the address of the push sandbox's control resources.
/// - `PHONE_HOME`: a folder for all programs of one participant.
/// - The scenario's keys, such as `PHONE_USER` and `PHONE_TOKEN`.
///
/// For a PBX, the names begin with `PBX_`, and `PBX_ADDRESS` is the address for calls from the daemon.
package struct Program: Hashable, Sendable {
    /// The exit code after SIGKILL, as a shell reports it.
    package static let killed = 128 + 9

    package enum End: Hashable, Sendable {
        /// The replay ends the program by SIGKILL, as a phone's operating system ends an app.
        case kill
        /// The replay ends the program by SIGTERM, as an operator stops a server.
        case stop
    }

    /// The script's path in the scenario's folder.
    package let script: String
    /// A program that must be in `PATH`; otherwise the scenario is skipped.
    package let needs: String?
    package let role: Actor.Role
    package let place: String
    /// The participant's IP address; `nil` for 127.0.0.1.
    package let address: String?
    package let keys: [String: String]
    /// The text that a phone's program prints after a 200; `nil` if no step waits for the 200. A PBX needs no text,
    /// because the replay checks whether the PBX's port is in use.
    package let says: String?
    package let end: End
    /// The condition for ending the program.
    package let endsWhen: StartCondition
}

/// A SIPp process (an actor), which plays one SIPp file as a phone or PBX.
package struct Actor: Hashable, Sendable {
    package enum Role: String, CaseIterable, Hashable, Sendable {
        case phone, pbx
    }

    package enum Transport: String, CaseIterable, Hashable, Sendable {
        case udp, tcp

        /// The value of SIPp's option `-t`, so that all calls of the process use one UDP or TCP socket.
        var mode: String {
            switch self {
            case .udp: "u1"
            case .tcp: "t1"
            }
        }
    }

    /// The SIPp file's path in the scenario's folder.
    package let file: String
    package let role: Role
    package let transport: Transport
    /// The participant that the process plays. All processes of a participant share a local port, and a column of the
    /// ladder diagram.
    package let place: String
    /// The participant's IP address; `nil` for 127.0.0.1.
    package let address: String?
    /// The participant to which the process sends; `nil` for the daemon.
    package let peer: String?
    /// The keywords of the SIPp file with their values, passed to SIPp as `-key NAME VALUE`.
    package let keys: [String: String]
}

/// The condition for the start of a step or for the end of a program. The condition is met when all its parts have been
/// true for the time `delay`.
package struct StartCondition: Hashable, Sendable {
    package struct Push: Hashable, Sendable {
        package let token: String
        /// The number of the push among the pushes to its token, from 1.
        package let nth: Int
    }

    /// The names of the steps that must have ended.
    package var after: [String] = []
    /// The actor or phone that must have received a 200, or the PBX that must be running.
    package var answered: String?
    package var push: Push?
    /// The push token for which the sandbox's hook must have run.
    package var hook: String?
    package var delay: Duration = .zero

    package static let atOnce = StartCondition()
}

/// A push that the sandbox must get during the scenario.
package struct ExpectedPush: Hashable, Sendable {
    package let token: String
    package let type: String
    /// The expected status of the sandbox's answer; `nil` for any status.
    package let status: Int?
    package let service: String?
    /// The expected values of the push's body, by their paths: see ``JSONValue/text(at:)``.
    package let fields: [String: String]
}
