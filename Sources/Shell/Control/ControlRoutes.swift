import Addressing
import Bytes
package import Calling
import Collections
import HTTPServer
import HTTPServices
import Persistence
package import ProxyCore
import ProxyRuntime
import PushDelivery
import PushSending
import Registration
import SIPGrammar
import Timekeeping

/// The operators' HTTP routes, for the control socket and the admin API. The routes for calls are in `ControlRoutes`;
/// the other routes are in `ControlRoutes+Users`, `+Devices`, `+Messages` and `+Providers`.
///
/// Long lists are read in pages, because reading all contacts or users at once would delay calls.
struct ControlRoutes {
    let door: ShardDoor
    let store: any ProxyStore
    /// The domains of users, and the realms of their passwords; both are constant while the daemon runs.
    let realms: UserRealms
    /// Returns the state of each app's credentials. The event loop's thread calls the closure `credentials`.
    let credentials: @Sendable () -> [String: CredentialStanding]
    /// Lets only one request at a time read, write and apply a push provider's state.
    let switches: OneAtATime
    /// The links with which phones get accounts. A link ends when its user is removed or gets another password.
    let provisioning: ProvisioningService
    /// Asks the other nodes of the cluster; `nil` without a cluster, and for the question of another node.
    let nodes: NodeQuestions?

    static let pageLimits = 1...1000
    static let defaultPage = 100

    func register(in router: inout ServiceRouter) {
        registerUsers(in: &router)
        registerUserRules(in: &router)
        registerDevices(in: &router)
        registerMessages(in: &router)
        router.add("GET", "/v1/held", .heldCalls) { call throws(ServiceProblem) in
            call.answer(try await heldCalls(call))
        }
        router.add("DELETE", "/v1/held/{}", .endCall) { call throws(ServiceProblem) in try await endCall(call) }
        registerProviders(in: &router)
        registerUpstreamUsers(in: &router)
    }

    /// Registers the routes by which other nodes ask this node.
    func registerForNodes(in router: inout ServiceRouter) {
        router.add("GET", "/v1/held", .heldCalls) { call throws(ServiceProblem) in
            call.answer(try await heldCalls(call))
        }
        router.add("GET", "/v1/named-calls", scope: .adminRead, domains: .byDomain) { call throws(ServiceProblem) in
            let (name, domains) = (call.request.query("name") ?? "", call.domains)
            call.answer(HeldCallPage(calls: await ownCalls(named: name, of: domains)))
        }
        router.add("DELETE", "/v1/held/{}", .endCall) { call throws(ServiceProblem) in try await endCall(call) }
        registerDevicesForNodes(in: &router)
        registerUpstreamUsersForNodes(in: &router)
    }

    // MARK: Calls

    private func heldCalls(_ call: ServiceCall) async throws(ServiceProblem) -> HeldCallPage {
        let (after, limit) = (try call.cursor(), try call.pageLimit())
        let domains = call.domains
        let own = await ownCalls(after: after, limit: limit, of: domains)
        guard let nodes else { return own }
        return own.joined(
            with: await nodes.ask("/v1/held?after=\(after.number)&limit=\(limit)", for: domains), limit: limit)
    }

    private func ownCalls(after: PageCursor, limit: Int, of domains: DomainScope) async -> HeldCallPage {
        // A page has only calls of the caller's domains, so that its length reveals nothing about other calls.
        await door.ask(.everything) { engine, _ in
            let page = engine.heldCalls(after: after, limit: limit) { domains.permits($0.host) }
            return HeldCallPage(
                calls: page.elements.compactMap { HeldCallReport($0, of: engine) }, next: page.next?.number,
                total: domains == .wholeDaemon ? engine.heldCallCount : nil)
        }
    }

    /// This node's calls with the given id, `callRef` or Call-ID.
    private func ownCalls(named name: String, of domains: DomainScope) async -> [HeldCallReport] {
        await door.ask(.everything) { engine, _ in
            engine.heldCalls(named: name).filter { $0.isOf(domains) }.compactMap { HeldCallReport($0, of: engine) }
        }
    }

    private func endCall(_ call: ServiceCall) async throws(ServiceProblem) {
        let text = call.request.query("status") ?? "480"
        guard let status = Self.endings[text] else {
            throw ServiceProblem(400, "status is one of \(Self.endings.keys.sorted().joined(separator: ", "))")
        }
        let name = call.parameter()
        call.changes("call \(name)")
        let (domains, wanted) = (call.domains, call.request.query("node"))
        let own = await ownCalls(named: name, of: domains).filter { wanted == nil || wanted == $0.node }
        var others = NodeAnswers<HeldCallPage>()
        if let nodes, wanted != nodes.own {
            others = await nodes.ask(
                "/v1/named-calls?name=\(NodeQuestions.encoded(name))", for: domains, of: wanted.map { [$0] })
        }
        let there = others.answers.flatMap { answer in answer.answer.calls.map { (node: answer.node, call: $0) } }
        guard own.count + there.count <= 1 else {
            let names = own.map { Self.name(of: $0, at: $0.node) } + there.map { Self.name(of: $0.call, at: $0.node) }
            throw ServiceProblem(
                409, "\(names.count) calls have that Call-ID",
                detail: "name one by its callRef, and by its node if it has one: \(names.joined(separator: ", "))")
        }
        if let (node, found) = there.first, let nodes {
            call.changes("call \(name) at \(node)")
            try await nodes.order(
                "DELETE", "/v1/held/\(NodeQuestions.encoded(found.callRef))?status=\(text)", for: domains, at: node)
            return call.answerDone()
        }
        guard let found = own.first,
            await door.ask(
                .everything, { engine, now in engine.callEndedByOperator(found.id, with: status, now: now) })
        else {
            let missing = others.missing.map { "\($0.node) did not answer (\($0.reason))" }
            throw ServiceProblem(404, "no such call", detail: missing.isEmpty ? nil : missing.joined(separator: "; "))
        }
        call.answerDone()
    }

    private static func name(of call: HeldCallReport, at node: String?) -> String {
        node.map { "\(call.callRef) at \($0)" } ?? call.callRef
    }

    /// The statuses with which an operator can end a call. Statuses with a lower priority than 487 are not allowed,
    /// because the caller would get the 487 of a cancelled phone instead (RFC 3261 section 16.7).
    static let endings: [String: Status] = ["480": 480, "486": 486, "600": 600, "603": 603]

    // MARK: Helpers

    /// Commits the changes to the store, and returns after the write to disk.
    ///
    /// - Throws: a problem with status 503 if the changes cannot be written.
    func write(_ changes: [ServiceChange]) async throws(ServiceProblem) {
        let isStored = await withCheckedContinuation { asker in
            store.commit(changes) { asker.resume(returning: $0.isStored) }
        }
        if !isStored { throw .notStored }
        provisioning.changed(changes)
    }

    /// Reads `user@domain`, with or without `sip:`; `nil` for a text without `@`.
    static func aor(_ name: String) -> AddressOfRecord? {
        let bare = name.hasPrefix("sip:") ? String(name.dropFirst(4)) : name
        guard let at = bare.lastIndex(of: "@") else { return nil }
        return AddressOfRecord(
            user: ByteString(String(bare[..<at])), host: ByteString(String(bare[bare.index(after: at)...])).lowercased()
        )
    }
}

extension ServiceCall {
    nonisolated func pageLimit() throws(ServiceProblem) -> Int {
        try number("limit", in: ControlRoutes.pageLimits) ?? ControlRoutes.defaultPage
    }

    /// Reads the first parameter of the path as an address-of-record.
    nonisolated func aor() throws(ServiceProblem) -> AddressOfRecord {
        guard let aor = ControlRoutes.aor(parameter()) else { throw ServiceProblem(404, "expected user@domain") }
        return aor
    }
}

extension ServiceProblem {
    static var notStored: ServiceProblem { ServiceProblem(503, "the store cannot write changes") }
}

extension StoredCall {
    /// Whether the called user is in one of the given domains.
    func isOf(_ domains: DomainScope) -> Bool {
        domains == .wholeDaemon || userCall.map { domains.permits($0.aor.host) } == true
    }
}

extension HeldCallReport {
    package init?(_ call: StoredCall, of engine: ProxyEngine) {
        guard let userCall = call.userCall else { return nil }
        self.init(
            id: call.id, callRef: userCall.callRef.description, aor: userCall.aor.description,
            callID: userCall.callID.string, caller: engine.caller(of: call.id)?.string ?? "",
            receivedAt: call.receivedAt.seconds, ringsUntil: userCall.holdUntil.seconds, sleeping: call.waiting.count,
            ringing: call.ringing.count, sleepingDevices: call.waiting.map(\.name),
            ringingDevices: call.ringing.map(\.name), laterDevices: call.delayed.map(\.name), node: engine.nodeName)
    }
}
