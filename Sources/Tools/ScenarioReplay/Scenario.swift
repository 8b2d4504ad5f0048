import JSON
package import Settings

/// A call scenario, read from its file `flow.yaml`.
package struct Scenario: Equatable, Sendable {
    /// The name of the scenario, which is the name of its folder.
    package let name: String
    package let about: String
    /// The settings that the scenario adds to the daemon's usual configuration; a null node if the scenario adds none.
    package let daemon: YAMLNode
    package let users: [ScenarioUser]
    package let tokens: [TokenFault]
    package let steps: [ScenarioStep]
    package let pushes: [ExpectedPush]
    /// How long the replay waits for unexpected pushes after all steps have ended.
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

/// A SIP user in the domain `example.net`, whose password the daemon knows.
package struct ScenarioUser: Hashable, Sendable {
    package let name: String
    package let password: String
}

/// A push token for which the sandbox gets a failure plan.
package struct TokenFault: Hashable, Sendable {
    package let token: String
    /// The members of the failure plan, such as `status`, with their numbers or texts.
    package let plan: [String: String]
}

/// One step of a scenario: it plays a SIPp file, runs the program of a phone or PBX, runs a control command of the
/// daemon, or sends an HTTP request.
package struct ScenarioStep: Hashable, Sendable {
    package enum Work: Hashable, Sendable {
        case play(Actor)
        case run(Program)
        /// The step runs a `sippushd` control command with the given arguments. The option `--config` is added to the
        /// arguments of the control command.
        case command([String])
        case request(APIRequest)
    }

    package let name: String
    package let start: StartCondition
    package let work: Work
    /// The exit code with which the step counts as successful.
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

    /// The role of the phone, PBX or SIPp process in the step; `nil` for a command or a request.
    var role: Actor.Role? { program?.role ?? actor?.role }
    /// The participant whose column in the ladder diagram shows the step; `nil` for a command or a request.
    package var place: String? { program?.place ?? actor?.place }
    /// The IP address that the step sets for its participant; `nil` if the step sets none.
    var address: String? { program?.address ?? actor?.address }

    package var program: Program? {
        guard case .run(let program) = work else { return nil }
        return program
    }
}

/// A request to the daemon's HTTP API, as an app or an application server sends it; curl sends the request.
package struct APIRequest: Hashable, Sendable {
    package let method: String
    /// The path and the query of the scenario's HTTP request. In `target` and `body`, `%user%` and `%domain%` stand for
    /// the user and the domain of the scenario.
    package let target: String
    package let fields: [String: String]
    /// The scopes of the API key in the request, separated by commas; `nil` if the request has no API key.
    package let scopes: String?
    package let body: String?
    /// The HTTP status that the answer must have.
    package let status: Int
    /// The values that the JSON in the answer must have, by their paths: see ``JSONValue/text(at:)``.
    package let answer: [String: String]

    /// The first difference between an answer and the expected answer; `nil` if there is no difference.
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
/// The script of a phone or PBX gets its parameters in environment variables:
///
/// - `PHONE_TARGET`: the daemon's `host:port`. `PHONE_SECURE` is the daemon's TLS address, and `PHONE_WEB` its address
///   for WebSocket over TLS.
/// - `PHONE_AUTHORITY`: the file of the authority that has issued the daemon's certificates.
/// - `PHONE_SANDBOX`: the address of the push sandbox's control resources.
/// - `PHONE_HOME`: a folder for all programs of one participant.
/// - The keys of the scenario, such as `PHONE_USER` and `PHONE_TOKEN`.
///
/// For a PBX, the names begin with `PBX_`, and `PBX_ADDRESS` is the address to which the daemon sends calls.
package struct Program: Hashable, Sendable {
    /// The exit code of a program that SIGKILL has ended, as a shell reports it.
    package static let killed = 128 + 9

    package enum End: Hashable, Sendable {
        /// The replay ends the program by SIGKILL, as a phone's operating system ends an app.
        case kill
        /// At the end of the step, the replay ends the step's program by SIGTERM, as an operator stops a server.
        case stop
    }

    /// The path of the script in the scenario's folder.
    package let script: String
    /// The name of a program that must be installed. If the needed program is not in `PATH`, the scenario is skipped.
    package let needs: String?
    package let role: Actor.Role
    package let place: String
    /// The IP address of the participant; `nil` for the usual address, 127.0.0.1.
    package let address: String?
    package let keys: [String: String]
    /// The text that a phone's program prints when the phone has received a 200; `nil` if no step waits for the 200.
    /// For a PBX, no text is needed, because a PBX counts as running when its port is in use.
    package let says: String?
    package let end: End
    /// The condition under which the replay ends the program.
    package let endsWhen: StartCondition
}

/// A SIPp process, which plays one SIPp file as a phone or PBX. In scenarios, a process that plays a SIPp file is
/// called an actor.
package struct Actor: Hashable, Sendable {
    package enum Role: String, CaseIterable, Hashable, Sendable {
        case phone, pbx
    }

    package enum Transport: String, CaseIterable, Hashable, Sendable {
        case udp, tcp

        /// The value of SIPp's option `-t`: all calls of the process use one UDP or TCP socket.
        var mode: String {
            switch self {
            case .udp: "u1"
            case .tcp: "t1"
            }
        }
    }

    /// The path of the SIPp file, in the scenario's folder.
    package let file: String
    package let role: Role
    package let transport: Transport
    /// The participant that the SIPp process plays. All processes of one participant have the same local port, and the
    /// same column in the ladder diagram.
    package let place: String
    /// The IP address of the participant; `nil` for the usual address, 127.0.0.1.
    package let address: String?
    /// The participant to which the SIPp process sends; `nil` if it sends to the daemon.
    package let peer: String?
    /// The values for the keywords in the SIPp file, each passed to SIPp as `-key NAME VALUE`.
    package let keys: [String: String]
}

/// The condition for the start of a step or the end of a program: all parts must be true, and must have been true for
/// the time `delay`.
package struct StartCondition: Hashable, Sendable {
    package struct Push: Hashable, Sendable {
        package let token: String
        /// The position of the push among the pushes to the given token; the first push has the number 1.
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
    /// The status that the sandbox's answer must have; `nil` if any status is allowed.
    package let status: Int?
    package let service: String?
    /// The values that the body of the push must have, by their paths: see ``JSONValue/text(at:)``.
    package let fields: [String: String]
}
