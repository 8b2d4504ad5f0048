import Addressing
import Bytes
import HTTPSemantics
import HTTPServer
import HTTPServices
import Persistence
import ProxyCore
import ProxyRuntime
import Reactor
import Registration
import Telemetry
import Timekeeping

/// The HTTP route from which phones get accounts. The route needs no key, because only the owner of a link knows the
/// token at the end of the path.
///
/// - The class is `@unchecked Sendable`, because only the shard's loop uses it.
final class ProvisionRoute: @unchecked Sendable {
    private let service: ProvisioningService
    private let wrongLogins: WrongLogins
    private var unknownLines = LogRateLimit()
    private var usedLines = LogRateLimit(burst: 20)
    private var unfitLines = LogRateLimit()

    init(service: ProvisioningService, wrongLogins: WrongLogins) {
        self.service = service
        self.wrongLogins = wrongLogins
    }

    /// The header fields of all answers. They forbid programs to store an answer, and browsers to tell other web sites
    /// the URL of the link.
    static let fields = [
        HTTPField("Cache-Control", "no-store"), HTTPField("Referrer-Policy", "no-referrer"),
        HTTPField("X-Content-Type-Options", "nosniff"), HTTPField("X-Robots-Tag", "noindex"),
    ]

    func register(in router: inout ServiceRouter) {
        // The route writes log lines of its own, because requests of browsers and previews change nothing.
        router.add("GET", "/provision/{}", scope: nil, domains: .open, isChange: false, described: .takeAccount) {
            [self] call throws(ServiceProblem) in
            await serve(call)
        }
    }

    private func serve(_ call: ServiceCall) async {
        guard let client = PhoneClient(call.request) else {
            var page = HTTPResponse(type: "text/html; charset=utf-8", body: Array(Self.page.utf8))
            page.fields += Self.fields
            page.fields.append(HTTPField("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'"))
            return call.answer(page)
        }
        let loop = service.loop
        guard let token = ProvisionToken(call.parameter()) else { return await refuseUnknown(call) }
        let hash = token.hash
        switch service.links.find(hash, now: loop.moment.date) {
        case .unknown: await refuseUnknown(call)
        case .used(let link): refuseUsed(call, link)
        case .unused(let link): await give(link, to: client, call)
        }
    }

    // MARK: Refusals

    private func refuse(_ call: ServiceCall, _ problem: ServiceProblem) {
        call.answer(problem.response(fields: Self.fields))
    }

    /// Counts the request against the limit of wrong logins of its address. Links that have expired or ended get the
    /// same answer as tokens that never existed.
    private func refuseUnknown(_ call: ServiceCall) async {
        let source = call.request.remote
        let wait = await wrongLogins.judge([false], from: source.address).wait
        if let suppressed = unknownLines.admit(now: service.loop.now) {
            service.log.notice(
                "a phone opened an unknown or expired provisioning link: make a new link with the command 'sippushd user qr'",
                [.source: .described(source), .suppressed: .number(suppressed)])
        }
        if let wait { return refuse(call, .tooManyLogins(wait)) }
        refuse(call, ServiceProblem(404, "the link is unknown or has expired"))
    }

    private func refuseUsed(_ call: ServiceCall, _ link: StoredProvisionLink) {
        if let suppressed = usedLines.admit(now: service.loop.now) {
            service.log.warning(
                "somebody opened a provisioning link that was already used, perhaps a thief: change the user's password unless the same phone opened the link twice",
                [
                    .aor: .text("\(link.name)@\(link.domain)"), .source: .described(call.request.remote),
                    .object: .text("first used from \(link.usedFrom)"), .suppressed: .number(suppressed),
                ])
        }
        refuse(call, ServiceProblem(410, "the link was used already"))
    }

    private func refuseUnfit(_ call: ServiceCall, _ link: StoredProvisionLink) {
        if let suppressed = unfitLines.admit(now: service.loop.now) {
            service.log.warning(
                "an app that needs a password opened a provisioning link without a new password: make the link with the option '--new-password'",
                [
                    .aor: .text("\(link.name)@\(link.domain)"), .source: .described(call.request.remote),
                    .suppressed: .number(suppressed),
                ])
        }
        refuse(
            call,
            ServiceProblem(
                409, "the app needs a password, and the link has none",
                detail: "make a link with a new password; this link stays unused"))
    }

    // MARK: Accounts

    private func give(_ link: StoredProvisionLink, to client: PhoneClient, _ call: ServiceCall) async {
        guard client != .cloudSoftphone || link.setsPassword else { return refuseUnfit(call, link) }
        guard let old = await service.stored(link.name, in: link.realm) else { return await refuseUnknown(call) }
        let (account, user): (PhoneAccount, DigestUser?)
        do throws(ServiceProblem) {
            (account, user) = try makeAccount(link, old)
        } catch {
            return refuse(call, error)
        }
        guard let body = client == .linphone ? account.linphone : account.cloudSoftphone else {
            return refuseUnfit(call, link)
        }
        let source = call.request.remote
        let use = ProvisionLinkUse(
            hash: link.hash, date: service.loop.moment.date, source: "\(source)", user: user)
        // The store writes the use before the phone gets the account. If the daemon dies in between, the link stays used.
        let result = await service.write([.useProvisionLink(use)]) { [service] in
            if $0.isStored, $0.isFound { service.links.used(use) }
        }
        guard result.isStored else {
            return refuse(
                call,
                ServiceProblem(503, "the use of the link cannot be stored now; the link stays unused", retryAfter: 5))
        }
        guard result.isFound else {
            // Another phone was faster, or the link has ended in the meantime.
            if case .used(let link) = service.links.find(link.hash, now: use.date) { return refuseUsed(call, link) }
            return await refuseUnknown(call)
        }
        if let user { await service.door.ask(.everything) { engine, now in engine.userAdded(user, now: now) } }
        service.log.notice(
            "a phone got its account through a provisioning link",
            [
                .aor: .text("\(link.name)@\(link.domain)"), .source: .described(source),
                .object: .text(client.rawValue + (link.setsPassword ? ", new password" : "")),
            ])
        var response = HTTPResponse(type: "application/xml; charset=utf-8", body: Array(body.utf8))
        response.fields += Self.fields
        call.answer(response)
    }

    /// Makes the account, and the user with the hashes of a new password if the link sets a password.
    private func makeAccount(
        _ link: StoredProvisionLink, _ old: DigestUser
    ) throws(ServiceProblem) -> (PhoneAccount, DigestUser?) {
        let (plan, realm) = (service.plan, service.realms.realm(of: link.domain.string))
        var user: DigestUser?
        var password: String?
        do throws(StartError) {
            if link.setsPassword {
                let made = try ProvisionToken.makePassword()
                user = try PasswordHasher().credentials(of: link.name.string, realm: realm, password: made).digestUser
                guard user != nil else { throw StartError("the user's name is malformed") }
                password = made
            }
        } catch {
            throw ServiceProblem(503, "no password can be made", detail: error.description, retryAfter: 5)
        }
        let hashes = plan.phoneAlgorithms.compactMap { algorithm in
            (user ?? old).ha1[algorithm].map { (algorithm: algorithm, ha1: $0) }
        }
        let account = PhoneAccount(
            user: link.name, domain: link.domain, realm: realm.text, server: plan.server(for: link.domain),
            hashes: hashes, password: password, apiURL: try plan.url().text)
        return (account, user)
    }

    /// The web page for browsers and previews of links. The page does not depend on the token, so nobody learns from
    /// the page which links exist.
    private static let page = """
        <!DOCTYPE html>
        <html lang="en"><head><meta charset="utf-8"><meta name="robots" content="noindex"><title>Set up a phone</title></head>
        <body><h1>Set up a phone</h1>
        <p>This link is for an app. In Linphone, choose the login by QR code and scan the code, or fetch a remote configuration
        from this address. Each link works once.</p></body></html>

        """
}
