import FoundationEssentials
package import HTTPServer
import JSON
package import Reactor

/// Who sent a request, as far as that is proved.
package enum ServiceCaller: Hashable, Sendable {
    /// Anyone, since the route asks for no key.
    case anyone
    /// Whoever has the key of this name.
    case key(String)
    /// The user of this name, who has shown his password.
    case user(String)
    /// Whoever may open the control socket: the user of the machine with that number, if the kernel says it.
    case operatorOfMachine(user: UInt32?)

    /// The name of the caller for the log.
    package var name: String {
        switch self {
        case .anyone: "-"
        case .key(let name): name
        case .user(let name): "user:\(name)"
        case .operatorOfMachine(let user?): "control socket, uid \(user)"
        case .operatorOfMachine(nil): "control socket"
        }
    }
}

/// One request on its way through a service, with the right to answer it: once, now or later, from any thread.
///
/// Handlers are isolated to the call, and so run on the services' loop. A call that is released without an answer is
/// answered with 500.
package actor ServiceCall {
    package nonisolated let request: HTTPRequest
    package nonisolated let caller: ServiceCaller
    /// What stood in the place of the pattern's `{}`s, in their order.
    package nonisolated let parameters: [String]
    private let reply: HTTPReply
    /// Called with the status of the answer; it writes the audit log.
    private let answered: @Sendable (Int, AuditedChange) -> Void
    private nonisolated let change = Locked(AuditedChange())
    private let loop: EventLoop
    package nonisolated var unownedExecutor: UnownedSerialExecutor { unsafe loop.asUnownedSerialExecutor() }

    package init(
        _ request: HTTPRequest, _ parameters: [String], from caller: ServiceCaller, _ reply: HTTPReply,
        on loop: EventLoop, answered: @escaping @Sendable (Int, AuditedChange) -> Void = { _, _ in }
    ) {
        self.loop = loop
        self.request = request
        self.parameters = parameters
        self.caller = caller
        self.reply = reply
        self.answered = answered
    }

    /// Runs the handler. A problem that it throws becomes the answer.
    func serve(by handler: ServiceRouter.Handler) async {
        do throws(ServiceProblem) {
            try await handler(self)
        } catch {
            answer(error)
        }
    }

    package nonisolated func answer(_ response: HTTPResponse) {
        answered(response.status, change.withLock { $0 })
        reply.send(response)
    }

    /// Answers with a body that comes in pieces; that of the response is the first of them.
    package nonisolated func stream(_ response: HTTPResponse) -> HTTPBody {
        answered(response.status, change.withLock { $0 })
        return reply.stream(response)
    }

    /// Says what the request changes, for the audit line: a user, a device, a key. No secret.
    ///
    /// - Parameters:
    ///   - names: of what is changed.
    ///   - actor: who asks for it, where the body shows that.
    package nonisolated func changes(_ names: String..., by actor: String? = nil) { changes(names, by: actor) }

    package nonisolated func changes(_ names: [String], by actor: String? = nil) {
        change.withLock { $0 = AuditedChange(object: AuditedChange.list(names), actor: actor) }
    }

    package nonisolated func answer(_ problem: ServiceProblem) { answer(problem.response()) }

    /// Runs the body off the loop; it reads the store and answers the call. When it throws, the answer is 503.
    package nonisolated func askStore(_ body: @escaping @Sendable () async throws -> Void) {
        Task {
            do { try await body() } catch { answer(.notRead) }
        }
    }

    /// Answers with a value as JSON.
    package nonisolated func answer(_ value: some Encodable, status: Int = 200, fields: [HTTPField] = []) {
        guard let data = try? JSONEncoder().encode(value) else {
            return answer(ServiceProblem(500, "the answer cannot be written"))
        }
        var response = HTTPResponse(status: status, type: "application/json", body: Array(data))
        response.fields += fields
        answer(response)
    }

    /// Answers with an empty object, which says that it is done.
    package nonisolated func answerDone() { answer([:] as [String: String]) }

    /// The parameter at that place of the pattern; empty when the pattern has fewer.
    package nonisolated func parameter(_ index: Int = 0) -> String { index < parameters.count ? parameters[index] : "" }

    /// Decodes the body as JSON; `expected` says in the problem what should have been sent. The body is read strictly
    /// first, because Foundation's own reader has no bound on depth.
    package nonisolated func body<Value: Decodable>(as type: Value.Type, expected: String) throws(ServiceProblem)
        -> Value
    {
        do {
            _ = try JSONValue(request.body)
            return try JSONDecoder().decode(type, from: Data(request.body))
        } catch let error as JSONError {
            throw ServiceProblem(400, "the body is no JSON that is taken", detail: "\(error)")
        } catch {
            throw ServiceProblem(400, "expected \(expected)")
        }
    }

    /// A query item as a number; `nil` when there is none.
    package nonisolated func number<Number: FixedWidthInteger>(
        _ name: String, in range: ClosedRange<Number>
    ) throws(ServiceProblem) -> Number? {
        guard let text = request.query(name) else { return nil }
        guard let number = Number(text), range.contains(number) else {
            throw ServiceProblem(
                400, "\(name) is no number that is taken", detail: "expected \(range.lowerBound) to \(range.upperBound)"
            )
        }
        return number
    }
}
