import Bytes
import HTTPServer
import HTTPServices
import ProxyCore
import ProxyRuntime
import Registration
import Timekeeping
import UpstreamRegistration

/// Users who are kept registered at a PBX: lists, one user, and the order to try again.
extension ControlRoutes {
    func registerUpstreamUsers(in router: inout ServiceRouter) {
        router.add("GET", "/v1/upstream", scope: .admin) { call throws(ServiceProblem) in
            let start = call.request.query("after").flatMap { Int($0) } ?? 0
            let limit = try call.pageLimit()
            let domain = call.request.query("domain").map { ByteString($0.lowercased()) }
            let page = await door.ask(.everything) { engine, now in
                Self.page(of: engine.upstreamUsers, domain, from: max(0, start), limit: limit, now: now)
            }
            call.answer(page)
        }
        router.add("GET", "/v1/upstream/{}", scope: .admin) { call throws(ServiceProblem) in
            let name = call.parameter()
            let report = await door.ask(.everything) { engine, now in
                Self.upstreamAOR(name).flatMap { engine.upstreamUsers.user($0) }
                    .flatMap { engine.upstreamUsers.agent.status(of: $0) }
                    .map { UpstreamUserReport($0, engine.upstreamUsers, now: now) }
            }
            guard let report else { throw ServiceProblem(404, "no user \(name) is kept registered at a PBX") }
            call.answer(report)
        }
        router.add("POST", "/v1/upstream/{}/retry", scope: .admin) { call throws(ServiceProblem) in
            let name = call.parameter()
            call.changes(name)
            let isDone = await door.ask(.everything) { engine, now in
                guard let aor = Self.upstreamAOR(name) else {
                    return engine.upstreamRetryOrdered(ByteString(name.lowercased()), user: nil, now: now)
                }
                guard engine.upstreamUsers.user(aor).flatMap({ engine.upstreamUsers.agent.status(of: $0) }) != nil
                else {
                    return false
                }
                return engine.upstreamRetryOrdered(aor.host, user: aor.user, now: now)
            }
            guard isDone else { throw ServiceProblem(404, "no user or domain \(name) is kept registered at a PBX") }
            call.answerDone()
        }
    }

    private static func upstreamAOR(_ text: String) -> AddressOfRecord? {
        guard let at = text.lastIndex(of: "@"), at > text.startIndex else { return nil }
        return AddressOfRecord(
            user: ByteString(String(text[..<at])), host: ByteString(text[text.index(after: at)...].lowercased()))
    }

    private static func page(
        of users: UpstreamUsers, _ domain: ByteString?, from start: Int, limit: Int, now: Moment
    ) -> UpstreamUserPage {
        let upstream = domain.flatMap { users.agent.upstream(of: $0) }
        guard domain == nil || upstream != nil else { return UpstreamUserPage(users: [], next: nil) }
        // The users of all domains share one list, so that a page has one cursor.
        let (page, next) = users.agent.users(of: upstream, from: start, limit: limit)
        return UpstreamUserPage(users: page.map { UpstreamUserReport($0, users, now: now) }, next: next)
    }
}

/// One user at a PBX, without the token.
package struct UpstreamUserReport: Codable, Sendable {
    package let aor: String
    package let state: String
    /// When the state began, in Unix seconds.
    package let since: Int64
    /// The last final status of the PBX; 0 if no answer came.
    package let status: Int
    /// For how many more seconds the PBX knows the user; 0 if it does not.
    package let remaining: Int64

    init(_ status: UpstreamStatus, _ users: UpstreamUsers, now: Moment) {
        aor = users.aor(of: status.user)?.description ?? status.user.description
        state = status.state.name
        since = status.since.seconds
        self.status = Int(status.status)
        remaining = status.boundUntil > now.instant ? (status.boundUntil - now.instant).components.seconds : 0
    }
}

package struct UpstreamUserPage: Codable, Sendable {
    package let users: [UpstreamUserReport]
    package let next: Int?
}
