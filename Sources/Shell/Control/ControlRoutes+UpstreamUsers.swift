import Bytes
import HTTPServer
package import HTTPServices
import ProxyCore
import ProxyPolicy
import ProxyRuntime
import Registration
import Routing
import Settings
import Timekeeping
import UpstreamRegistration

/// The HTTP routes for users whom the daemon keeps registered at PBXs: lists of domains and users, one user's state,
/// and a new try.
extension ControlRoutes {
    func registerUpstreamUsers(in router: inout ServiceRouter) {
        registerUpstreamLists(in: &router)
        router.add("GET", "/v1/upstream/{}", .upstreamUser) { call throws(ServiceProblem) in
            let name = call.parameter()
            guard let report = try await upstreamUser(name, call) else {
                throw ServiceProblem(404, "no user \(name) is kept registered at a PBX")
            }
            call.answer(report)
        }
    }

    /// Registers the routes by which other nodes ask the node that registers users.
    func registerUpstreamUsersForNodes(in router: inout ServiceRouter) {
        registerUpstreamLists(in: &router)
        router.add("GET", "/v1/duty", scope: .adminRead, domains: .byDomain) { call in
            call.answer(NodeDutyReport(registersUsers: await registersUsers))
        }
        router.add("GET", "/v1/named-upstream", scope: .adminRead, domains: .byDomain) { call throws(ServiceProblem) in
            let found = try await upstreamUser(call.request.query("name") ?? "", call)
            call.answer(UpstreamUserPage(users: found.map { [$0] } ?? [], next: nil))
        }
    }

    private func registerUpstreamLists(in router: inout ServiceRouter) {
        router.add("GET", "/v1/upstream-domains", scope: .adminRead, domains: .byDomain, described: .upstreamDomains) {
            call throws(ServiceProblem) in
            call.answer(try await upstreamDomains(call))
        }
        router.add("GET", "/v1/upstream", .upstreamUsers) { call throws(ServiceProblem) in
            call.answer(try await upstreamUsers(call))
        }
        router.add("POST", "/v1/upstream/{}/retry", .upstreamRetry) { call throws(ServiceProblem) in
            try await retryUpstream(call)
        }
    }

    // MARK: The node that registers users

    /// Whether this daemon registers users. In a cluster, only the node with the duties does.
    private var registersUsers: Bool {
        get async { await door.ask(.everything) { engine, _ in engine.upstreamUsers.agent.isActive } }
    }

    /// The other node that registers users; `nil` if this daemon does.
    private func registeringNode(_ domains: DomainScope) async throws(ServiceProblem) -> String? {
        guard let nodes, await !registersUsers else { return nil }
        let others: NodeAnswers<NodeDutyReport> = await nodes.ask("/v1/duty", for: domains)
        if let node = others.answers.first(where: { $0.answer.registersUsers })?.node { return node }
        let missing = others.missing.map { "\($0.node) did not answer (\($0.reason))" }
        throw ServiceProblem(
            503, "no node of the cluster registers users now",
            detail: missing.isEmpty
                ? "a node gets the duties within seconds; try again" : missing.joined(separator: "; "))
    }

    /// The answer of the node that registers users; `nil` if this daemon does.
    private func elsewhere<Answer: Decodable & Sendable>(
        _ resource: String, _ domains: DomainScope
    ) async throws(ServiceProblem) -> Answer? {
        guard let nodes, let node = try await registeringNode(domains) else { return nil }
        let answers: NodeAnswers<Answer> = await nodes.ask(resource, for: domains, of: [node])
        guard let answer = answers.answers.first?.answer else {
            throw ServiceProblem(504, "the node \(node) did not answer", detail: answers.missing.first?.reason)
        }
        return answer
    }

    // MARK: Answers

    private func upstreamDomains(_ call: ServiceCall) async throws(ServiceProblem) -> [UpstreamDomainReport] {
        let domains = call.domains
        if let reports: [UpstreamDomainReport] = try await elsewhere("/v1/upstream-domains", domains) { return reports }
        let reports = await door.ask(.everything) { engine, now in
            UpstreamDomainReport.all(of: engine.upstreamUsers, now: now)
        }
        return reports.filter { domains.permits(ByteString($0.domain)) }
    }

    private func upstreamUsers(_ call: ServiceCall) async throws(ServiceProblem) -> UpstreamUserPage {
        let start = max(0, call.request.query("after").flatMap { Int($0) } ?? 0)
        let limit = try call.pageLimit()
        let (name, domains) = (call.request.query("domain")?.lowercased(), call.domains)
        let wanted = name.map { "&domain=\(NodeQuestions.encoded($0))" } ?? ""
        if let page: UpstreamUserPage = try await elsewhere(
            "/v1/upstream?after=\(start)&limit=\(limit)\(wanted)", domains)
        {
            return page
        }
        return await door.ask(.everything) { engine, now in
            Self.page(
                of: engine.upstreamUsers, name.map { ByteString($0) }, within: domains, from: start, limit: limit,
                now: now)
        }
    }

    private func upstreamUser(
        _ name: String, _ call: ServiceCall
    ) async throws(ServiceProblem) -> UpstreamUserReport? {
        let domains = call.domains
        if let page: UpstreamUserPage = try await elsewhere(
            "/v1/named-upstream?name=\(NodeQuestions.encoded(name))", domains)
        {
            return page.users.first
        }
        return await door.ask(.everything) { engine, now in
            Self.upstreamAOR(name).flatMap { domains.permits($0.host) ? engine.upstreamUsers.user($0) : nil }
                .flatMap { engine.upstreamUsers.agent.status(of: $0) }
                .map { UpstreamUserReport($0, engine.upstreamUsers, now: now) }
        }
    }

    private func retryUpstream(_ call: ServiceCall) async throws(ServiceProblem) {
        let name = call.parameter()
        call.changes(name)
        let domains = call.domains
        if let nodes, let node = try await registeringNode(domains) {
            try await nodes.order("POST", "/v1/upstream/\(NodeQuestions.encoded(name))/retry", for: domains, at: node)
            return call.answerDone()
        }
        let isDone = await door.ask(.everything) { engine, now in
            guard let aor = Self.upstreamAOR(name) else {
                let domain = ByteString(name.lowercased())
                return domains.permits(domain) && engine.upstreamRetryOrdered(domain, user: nil, now: now)
            }
            guard domains.permits(aor.host),
                engine.upstreamUsers.user(aor).flatMap({ engine.upstreamUsers.agent.status(of: $0) }) != nil
            else {
                return false
            }
            return engine.upstreamRetryOrdered(aor.host, user: aor.user, now: now)
        }
        guard isDone else { throw ServiceProblem(404, "no user or domain \(name) is kept registered at a PBX") }
        call.answerDone()
    }

    private static func upstreamAOR(_ text: String) -> AddressOfRecord? {
        guard let at = text.lastIndex(of: "@"), at > text.startIndex else { return nil }
        return AddressOfRecord(
            user: ByteString(String(text[..<at])), host: ByteString(text[text.index(after: at)...].lowercased()))
    }

    private static func page(
        of users: UpstreamUsers, _ domain: ByteString?, within domains: DomainScope, from start: Int, limit: Int,
        now: Moment
    ) -> UpstreamUserPage {
        if let domain, !domains.permits(domain) { return UpstreamUserPage(users: [], next: nil) }
        let upstream = domain.flatMap { users.agent.upstream(of: $0) }
        guard domain == nil || upstream != nil else { return UpstreamUserPage(users: [], next: nil) }
        // The cursor of a page is an index in the list of the registration client; the list has the users of all
        // domains.
        let (page, next) = users.agent.users(of: upstream, from: start, limit: limit)
        // A page can be empty if none of its users is in the caller's domains. Therefore one request reads no more
        // records than a page has.
        let visible = page.filter { user in
            domains == .wholeDaemon || users.aor(of: user.user).map { domains.permits($0.host) } == true
        }
        return UpstreamUserPage(users: visible.map { UpstreamUserReport($0, users, now: now) }, next: next)
    }
}

/// Whether a node registers users, as other nodes ask it.
struct NodeDutyReport: Codable, Sendable, DescribedBody {
    let registersUsers: Bool
}

/// The registration of one user at a PBX, as the control API reports it, without the ``UpstreamToken``.
package struct UpstreamUserReport: Codable, Sendable, DescribedBody {
    package static let schemaName: String? = "UpstreamUser"
    package static let notes: [String: JSONSchema] = [
        "since": .words("When the state began, in Unix seconds."),
        "status": .words("The last final status of the PBX; 0 if no answer came."),
        "remaining": .words("For how many more seconds the PBX knows the user; 0 if it does not."),
        "reason": .words("Why the PBX does not know the user. Missing if it does."),
        "advice": .words("The cure for `reason`."),
    ]

    package let aor: String
    package let state: String
    /// The Unix time in seconds at which the state began.
    package let since: Int64
    /// The status of the last final response from the PBX; 0 if no response came.
    package let status: Int
    /// The number of seconds until the binding at the PBX ends; 0 if the PBX does not know the user.
    package let remaining: Int64
    /// Why the PBX does not know the user; `nil` if the PBX knows the user.
    package let reason: String?
    package let advice: String?

    package init(
        aor: String, state: String, since: Int64, status: Int, remaining: Int64, reason: String?, advice: String?
    ) {
        self.aor = aor
        self.state = state
        self.since = since
        self.status = status
        self.remaining = remaining
        self.reason = reason
        self.advice = advice
    }

    init(_ status: UpstreamStatus, _ users: UpstreamUsers, now: Moment) {
        aor = users.aor(of: status.user)?.description ?? status.user.description
        state = status.state.name
        since = status.since.seconds
        self.status = Int(status.status)
        reason = status.words
        advice = status.advice
        remaining = status.boundUntil > now.instant ? (status.boundUntil - now.instant).components.seconds : 0
    }
}

package struct UpstreamUserPage: Codable, Sendable, DescribedBody {
    package static let schemaName: String? = "UpstreamUserPage"
    package static let notes: [String: JSONSchema] = [
        "next": .words("The `after` of the next page. Missing on the last page.")
    ]

    package let users: [UpstreamUserReport]
    package let next: Int?
}

/// A domain whose users the daemon keeps registered at a PBX, as the control API reports it.
package struct UpstreamDomainReport: Codable, Sendable, DescribedBody {
    package static let schemaName: String? = "UpstreamDomain"
    package static let notes: [String: JSONSchema] = [
        "isUp": .words("Whether a server of the PBX answers OPTIONS. Missing before the first answer."),
        "realm": .words("The realm of the users' passwords here."),
        "askedRealm": .words("The realm in which the PBX asks for passwords. Missing before the first challenge."),
        "credence": .words(
            "Whether the PBX asks phones for passwords: `unknown`, `asks`, or `takes-our-word`. In the last case the daemon asks phones itself."
        ),
        "refused": .words("The number of users whom the PBX refuses or does not have."),
        "examples": .words("The first ten of these users."),
    ]

    package let domain: String
    package let pbx: String
    package let isUp: Bool?
    package let realm: String
    package let askedRealm: String?
    package let credence: String
    package let registered: Int
    package let waiting: Int
    package let refused: Int
    package let examples: [UpstreamUserReport]

    package init(
        domain: String, pbx: String, isUp: Bool?, realm: String, askedRealm: String?, credence: String,
        registered: Int, waiting: Int, refused: Int, examples: [UpstreamUserReport]
    ) {
        self.domain = domain
        self.pbx = pbx
        self.isUp = isUp
        self.realm = realm
        self.askedRealm = askedRealm
        self.credence = credence
        self.registered = registered
        self.waiting = waiting
        self.refused = refused
        self.examples = examples
    }

    static func all(of users: UpstreamUsers, now: Moment) -> [UpstreamDomainReport] {
        users.numbers.compactMap { number in
            let pbx = users.pbxs[number]
            guard let upstream = pbx.registrations else { return nil }
            let states = users.agent.states(of: upstream)
            func count(_ counted: RegistrationState...) -> Int { counted.reduce(0) { $0 + states[$1, default: 0] } }
            let heard = pbx.health.servers.filter { $0.state != .unknown }
            return UpstreamDomainReport(
                domain: pbx.domain.string, pbx: NextHop.settingType.print(pbx.upstream),
                isUp: heard.isEmpty ? nil : heard.contains { $0.state == .up },
                realm: users.agent.domain(upstream)?.realm.string ?? "",
                askedRealm: users.agent.askedRealm(of: upstream)?.string, credence: pbx.credence.rawValue,
                registered: count(.registered, .refreshing), waiting: count(.registering),
                refused: count(.refused, .absent),
                examples: users.agent.refused(of: upstream, limit: 10).map { UpstreamUserReport($0, users, now: now) })
        }
    }
}
