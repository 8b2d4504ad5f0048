package import Addressing
package import Collections
package import HTTPSemantics
package import HTTPServer
import JSON
package import Reactor

/// The sender of a request, as far as the daemon could prove it.
package enum ServiceCaller: Hashable, Sendable {
    /// The sender is unknown, because the HTTP route requires no key.
    case anyone
    /// The sender has the key with the given name.
    case key(String)
    /// The sender is the user with the given name, who sent the right password.
    case user(String)
    /// The sender is a client of the control socket; `user` is its user number on this machine, if the kernel reports
    /// it.
    case operatorOfMachine(user: UInt32?)
    /// The sender is another node of the cluster, with the given address.
    case node(IPAddress)

    /// The name of the sender for the log.
    package var name: String {
        switch self {
        case .anyone: "-"
        case .key(let name): name
        case .user(let name): "user:\(name)"
        case .operatorOfMachine(let user?): "control socket, uid \(user)"
        case .operatorOfMachine(nil): "control socket"
        case .node(let address): "node \(address)"
        }
    }
}

/// Why a caller may no longer read an answer that is sent in pieces.
package enum CallerEnd: String, Sendable {
    case sessionEnded = "session ended"
    case keyRemoved = "key removed"
}

/// One HTTP request, which is answered once, immediately or later, from any thread.
///
/// Handlers are isolated to the actor ``ServiceCall``, and therefore run on the services' loop. A request that nobody
/// has answered when its ``ServiceCall`` is freed gets 500.
package actor ServiceCall {
    package nonisolated let request: HTTPRequest
    package nonisolated let caller: ServiceCaller
    /// The parts of the path that matched `{}` or `{*}` in the pattern, in their order.
    package nonisolated let parameters: [String]
    private nonisolated let scope: DomainScope
    /// Whether the handler has asked for the caller's domains.
    private nonisolated let hasAsked = Locked(false)
    private let reply: HTTPReply
    /// Writes the audit log, with the status of the answer.
    private let answered: @Sendable (Int, AuditedChange) -> Void
    /// The header fields of each answer, unless the handler has set them.
    private nonisolated let fields: [HTTPField]
    /// The reason why the caller may no longer read an answer that is sent in pieces; `nil` while the caller may read
    /// it. The closure `ending` is called on the event loop's thread.
    package nonisolated let ending: @Sendable () -> CallerEnd?
    private nonisolated let change = Locked(AuditedChange())
    private let loop: EventLoop
    package nonisolated var unownedExecutor: UnownedSerialExecutor { unsafe loop.asUnownedSerialExecutor() }

    package init(
        _ request: HTTPRequest, _ parameters: [String], from caller: ServiceCaller, _ reply: HTTPReply,
        in domains: DomainScope, on loop: EventLoop, fields: [HTTPField] = [],
        ending: @escaping @Sendable () -> CallerEnd? = { nil },
        answered: @escaping @Sendable (Int, AuditedChange) -> Void = { _, _ in }
    ) {
        self.fields = fields
        self.ending = ending
        scope = domains
        self.loop = loop
        self.request = request
        self.parameters = parameters
        self.caller = caller
        self.reply = reply
        self.answered = answered
    }

    /// Runs the handler, and answers the request with the problem that the handler throws.
    func serve(by handler: ServiceRouter.Handler) async {
        do throws(ServiceProblem) {
            try await handler(self)
        } catch {
            answer(error)
        }
    }

    /// The domains that the caller may reach. A handler with ``DomainRule/byDomain`` checks each object against the
    /// caller's domains.
    package nonisolated var domains: DomainScope {
        hasAsked.withLock { $0 = true }
        return scope
    }

    /// Whether the caller may get an answer with the given status. A handler that never asked for the caller's domains
    /// may show foreign objects, so a key with domains gets no answer.
    private nonisolated func isPermitted(_ status: Int) -> Bool {
        scope == .wholeDaemon || status >= 400 || hasAsked.withLock { $0 }
    }

    package nonisolated func answer(_ response: HTTPResponse) {
        let response = isPermitted(response.status) ? response : ServiceProblem.forWholeDaemon.response()
        answered(response.status, change.withLock { $0 })
        reply.send(completed(response))
    }

    private nonisolated func completed(_ response: HTTPResponse) -> HTTPResponse {
        var response = response
        response.fields += fields.filter { own in !response.fields.contains { $0.name == own.name } }
        return response
    }

    /// Starts an answer whose body is sent in pieces; the body of `response` is the first piece.
    package nonisolated func stream(_ response: HTTPResponse) -> HTTPBody {
        precondition(
            isPermitted(response.status), "the handler of a streamed answer asks for the caller's domains first")
        answered(response.status, change.withLock { $0 })
        return reply.stream(completed(response))
    }

    /// Names the object that the request changes, such as a user, a device or a key. The names of changed objects must
    /// not be secrets, because the audit log shows them.
    ///
    /// - Parameters:
    ///   - names: the names of the objects that the request changed.
    ///   - actor: the sender of the request, if only the body names the sender.
    package nonisolated func changes(_ names: String..., by actor: String? = nil) { changes(names, by: actor) }

    package nonisolated func changes(_ names: [String], by actor: String? = nil) {
        change.withLock { $0 = AuditedChange(object: AuditedChange.list(names), actor: actor) }
    }

    package nonisolated func answer(_ problem: ServiceProblem) { answer(problem.response()) }

    /// Runs a closure on another thread than the loop's; the closure reads the store and answers the request. If the
    /// closure that reads the store throws, the client gets 503.
    package nonisolated func askStore(_ body: @escaping @Sendable () async throws -> Void) {
        Task {
            do { try await body() } catch { answer(.notRead) }
        }
    }

    /// Answers the request with the value as JSON.
    package nonisolated func answer(_ value: some Encodable, status: Int = 200, fields: [HTTPField] = []) {
        guard let json = try? JSONValue(of: value) else {
            return answer(ServiceProblem(500, "the answer cannot be written"))
        }
        var response = HTTPResponse(status: status, type: "application/json", body: json.bytes)
        response.fields += fields
        answer(response)
    }

    /// Answers the request with success: an empty JSON object.
    package nonisolated func answerDone() { answer([:] as [String: String]) }

    /// The path parameter with the given index; empty if the pattern has fewer parameters.
    package nonisolated func parameter(_ index: Int = 0) -> String { index < parameters.count ? parameters[index] : "" }

    /// Decodes the body of the request as JSON. After a decoding error, the client gets a problem with the text
    /// `expected` about the expected body.
    package nonisolated func body<Value: Decodable>(as type: Value.Type, expected: String) throws(ServiceProblem)
        -> Value
    {
        do {
            return try JSONValue(request.body).decoded()
        } catch let error as JSONError {
            throw ServiceProblem(400, "the body cannot be read as JSON", detail: "\(error)")
        } catch {
            throw ServiceProblem(400, "expected \(expected)")
        }
    }

    /// Returns the position at which the requested page of the list starts. For the next page, the client sends the
    /// previous page's `next` as the query parameter `after`.
    package nonisolated func cursor() throws(ServiceProblem) -> PageCursor {
        PageCursor(try number("after", in: 0...UInt64(Int64.max)) ?? 0)
    }

    /// Returns the query parameter with the given name as a number; `nil` if the parameter is missing.
    package nonisolated func number<Number: FixedWidthInteger>(
        _ name: String, in range: ClosedRange<Number>
    ) throws(ServiceProblem) -> Number? {
        guard let text = request.query(name) else { return nil }
        guard let number = Number(text), range.contains(number) else {
            throw ServiceProblem(
                400, "\(name) is not a number in the allowed range",
                detail: "expected \(range.lowerBound) to \(range.upperBound)"
            )
        }
        return number
    }
}
