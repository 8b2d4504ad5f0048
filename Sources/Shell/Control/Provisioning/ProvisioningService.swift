import Addressing
import Bytes
import Collections
import HTTPSemantics
import HTTPServer
package import HTTPServices
package import Persistence
import ProxyCore
package import ProxyRuntime
package import Reactor
import Registration
package import Telemetry
import Timekeeping

/// Makes, lists and revokes links with which phones get accounts. ``ProvisionRoute`` gives the accounts to phones.
///
/// - The class is `@unchecked Sendable`, because only the shard's loop uses it.
package final class ProvisioningService: @unchecked Sendable {
    let plan: ProvisioningPlan
    let realms: UserRealms
    let store: any ProxyStore
    let door: ShardDoor
    let loop: EventLoop
    let log: Log
    var links: ProvisionLinks { didSet { changes += 1 } }
    /// The number of changes of the links by this daemon.
    package private(set) var changes = 0

    /// Reads the links from the store.
    package init(
        plan: ProvisioningPlan, realms: UserRealms, store: any ProxyStore, door: ShardDoor, loop: EventLoop, log: Log
    ) async throws(StartError) {
        (self.plan, self.realms, self.store) = (plan, realms, store)
        (self.door, self.loop, self.log) = (door, loop, log)
        do throws(StoreError) {
            links = ProvisionLinks(try await store.provisionLinks())
        } catch {
            throw StartError(error)
        }
    }

    /// Adds the HTTP routes for application servers, and the HTTP route from which phones get accounts.
    package func register(in api: APIService) {
        register(in: &api.router, reading: .provisioning, changing: .provisioning)
        ProvisionRoute(service: self, wrongLogins: api.wrongLogins).register(in: &api.router)
    }

    /// Adds the HTTP routes for operators.
    func registerForOperators(in router: inout ServiceRouter) {
        register(in: &router, reading: .adminRead, changing: .admin)
    }

    private func register(in router: inout ServiceRouter, reading: APIScope, changing: APIScope) {
        router.add(
            "POST", "/v1/users/{}/provisioning", scope: changing, domains: .byDomain, described: .makeProvisionLink
        ) { [self] call throws(ServiceProblem) in
            try await make(call)
        }
        router.add(
            "DELETE", "/v1/users/{}/provisioning", scope: changing, domains: .byDomain,
            described: .revokeProvisionLink
        ) { [self] call throws(ServiceProblem) in
            try await revoke(call)
        }
        router.add("GET", "/v1/provisioning", scope: reading, domains: .byDomain, described: .provisionLinks) {
            [self] call throws(ServiceProblem) in
            try list(call)
        }
    }

    /// Replaces the links by the links of the store, because another node may have changed them.
    package func use(_ stored: [StoredProvisionLink]) { links = ProvisionLinks(stored) }

    /// Drops the unused links of users who were removed or got another password. The store has dropped them, too.
    func changed(_ changes: [ServiceChange]) {
        for change in changes {
            switch change {
            case .addUser(let user): links.removeUnused(of: user.name, realm: user.realm)
            case .removeUser(let name, let realm): links.removeUnused(of: name, realm: realm)
            default: break
            }
        }
    }

    /// Commits the changes, and calls `stored` on the loop before any later commit of the store ends.
    func write(
        _ changes: [ServiceChange], stored: @escaping @Sendable (WriteResult) -> Void
    ) async -> WriteResult {
        await withCheckedContinuation { asker in
            store.commit(changes) { result in
                stored(result)
                asker.resume(returning: result)
            }
        }
    }

    // MARK: Orders

    private func make(_ call: ServiceCall) async throws(ServiceProblem) {
        var request = ProvisionLinkRequest()
        if !call.request.body.isEmpty {
            request = try call.body(as: ProvisionLinkRequest.self, expected: "expiresAfter and newPassword")
        }
        let life = request.expiresAfter.map { Duration.seconds($0) } ?? plan.settings.life
        guard ProvisioningSettings.lives.contains(life) else {
            throw ServiceProblem(400, "expiresAfter must be 60 to 604800")
        }
        let aor = try account(call)
        call.changes("\(aor)")
        let (user, realm) = try await user(of: aor)
        let setsPassword = request.newPassword ?? false
        guard setsPassword || plan.phoneAlgorithms.contains(where: { user.ha1[$0] != nil }) else {
            throw ServiceProblem(
                409, "no link can be made",
                detail: "phones cannot use the hashes that the store has of the password: ask for a new password")
        }
        let url = try plan.url()
        let token: ProvisionToken
        do throws(StartError) {
            token = try .make()
        } catch {
            throw ServiceProblem(503, "no link can be made", detail: error.description)
        }
        let now = loop.moment.date
        links.prune(now: now)
        guard !links.isFull(for: user.name, realm: realm.account, domain: aor.host, now: now) else {
            throw ServiceProblem(
                409, "too many links are unused",
                detail:
                    "at most \(ProvisionLinks.limitForDomain) for each domain: revoke some, or wait until they expire")
        }
        let link = StoredProvisionLink(
            hash: token.hash, name: user.name, realm: realm.account, domain: aor.host, createdAt: now,
            expiresAt: now + life, setsPassword: setsPassword, creator: call.caller.name)
        let result = await write([
            .pruneProvisionLinks(
                at: now, usedBefore: now + (.zero - ProvisionLinks.usedAge), keeping: ProvisionLinks.usedLimit),
            .addProvisionLink(link),
        ]) { [self] in
            if $0.isStored { links.add(link) }
        }
        guard result.isStored else { throw .notStored }
        call.answer(
            ProvisionLinkAnswer(
                user: "\(aor)", url: "\(url.text)/provision/\(token.text)", expiresAt: link.expiresAt.seconds,
                newPassword: setsPassword), fields: ProvisionRoute.fields)
    }

    private func revoke(_ call: ServiceCall) async throws(ServiceProblem) {
        let aor = try account(call)
        call.changes("\(aor)")
        let realm = realms.realm(of: aor.host.string).account
        let now = loop.moment.date
        links.prune(now: now)
        guard links.hasUnused(of: aor.user, realm: realm) else {
            throw ServiceProblem(404, "no link of \(aor) is unused")
        }
        let result = await write([.removeProvisionLinks(name: aor.user, realm: realm)]) { [self] in
            if $0.isStored { links.removeUnused(of: aor.user, realm: realm) }
        }
        guard result.isStored else { throw .notStored }
        call.answerDone()
    }

    private func list(_ call: ServiceCall) throws(ServiceProblem) {
        let (limit, start) = (try call.pageLimit(), Int(clamping: try call.cursor().number))
        let domains = call.domains
        let visible = links.all(now: loop.moment.date).filter { isVisible($0, to: domains) }
        let name = call.request.query("user")
        let wanted = name.map { name in visible.filter { "\($0.name)@\($0.domain)" == name } } ?? visible
        let page = wanted.dropFirst(start).prefix(limit)
        let reports = page.map { ProvisionLinkReport($0, showsCreator: domains == .wholeDaemon) }
        let end = start + reports.count
        call.answer(ProvisionLinkPage(links: reports, next: end < wanted.count ? UInt64(end) : nil))
    }

    private func isVisible(_ link: StoredProvisionLink, to domains: DomainScope) -> Bool {
        domains.permits(link.domain) && realms.permits(realm: link.realm, domains)
    }

    // MARK: Users

    /// Reads the user in the path. If the caller may not reach the user's domain, the user is treated as unknown.
    private func account(_ call: ServiceCall) throws(ServiceProblem) -> AddressOfRecord {
        let domains = call.domains
        let text = call.parameter()
        let home = domains.single?.string ?? realms.domains.first ?? ""
        guard let aor = ControlRoutes.aor(text.contains("@") ? text : "\(text)@\(home)"), !aor.user.isEmpty,
            realms.domains.contains(where: { $0.lowercased() == aor.host.string }), domains.permits(aor.host),
            realms.permits(realm: realms.realm(of: aor.host.string).account, domains)
        else { throw ServiceProblem(404, "no user is called \(text)") }
        return aor
    }

    /// Returns the user in the store, with the realm of the user's domain.
    private func user(of aor: AddressOfRecord) async throws(ServiceProblem) -> (DigestUser, Realm) {
        let realm = realms.realm(of: aor.host.string)
        if let user = await stored(aor.user, in: realm.account) { return (user, realm) }
        let others = plan.otherSources(aor.host.string)
        guard others.isEmpty else {
            throw ServiceProblem(
                409, "no link can be made",
                detail:
                    "the store has no password of \(aor). Users of \(others.joined(separator: ", ")) have their passwords there: set up the phone with such a password, or add the user with sippushd user add"
            )
        }
        throw ServiceProblem(404, "no user is called \(aor)")
    }

    func stored(_ name: ByteString, in realm: ByteString) async -> DigestUser? {
        await door.user(named: name, realm: realm)
    }
}
