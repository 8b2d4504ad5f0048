import Bytes
import HTTPServer
import HTTPServices
import Persistence
import ProxyCore
import ProxyRuntime
import Registration

/// The HTTP routes of `sippushd user import` and `user export`, which transfer many users.
///
/// Only the control socket can transfer users, because an export contains hashes, which are as secret as passwords.
struct UserTransfer {
    let routes: ControlRoutes

    func register(in router: inout ServiceRouter) {
        router.add("POST", "/v1/users", scope: .admin, domains: .wholeDaemon) { call throws(ServiceProblem) in
            let batch = try call.body(as: UserBatch.self, expected: "users, each with name and hashes")
            call.changes("\(batch.users.count) users")
            let changes: [ServiceChange]
            do throws(StoreError) {
                changes = try batch.changes()
            } catch {
                throw ServiceProblem(400, error.description)
            }
            try await routes.write(changes)
            await routes.door.ask(.everything) { engine, now in
                for case .addUser(let user) in changes { engine.userAdded(user, now: now) }
            }
            call.answerDone()
        }
        router.add("GET", "/v1/user-credentials", scope: .admin, domains: .wholeDaemon) { call throws(ServiceProblem) in
            let limit = try call.pageLimit()
            let last = call.request.query("after").flatMap(UserBatch.parts) ?? (.empty, .empty)
            call.askStore { [store = routes.store] in
                let users = try await store.users(after: last.name, in: last.realm, limit: limit)
                call.answer(UserBatch(users: users.map { UserCredentials($0) }))
            }
        }
    }
}

/// Users that are added together: either all or none are added.
package struct UserBatch: Codable, Sendable {
    package var users: [UserCredentials]

    /// The maximum number of users in one batch; it is low, because calls wait while the daemon decodes a batch.
    package static let limit = 250

    package init(users: [UserCredentials]) { self.users = users }

    func changes() throws(StoreError) -> [ServiceChange] {
        guard 1...Self.limit ~= users.count else { throw StoreError("expected 1 to \(Self.limit) users") }
        var changes: [ServiceChange] = []
        for credentials in users {
            guard let user = credentials.digestUser else {
                throw StoreError("\(credentials.name): the name must be user@domain, and the hashes hexadecimal")
            }
            changes.append(.addUser(user))
        }
        return changes
    }

    /// Splits `name@realm` into name and realm; `nil` for a text without `@`.
    static func parts(of text: String) -> (name: ByteString, realm: ByteString)? {
        guard let at = text.lastIndex(of: "@") else { return nil }
        return (ByteString(String(text[..<at])), ByteString(String(text[text.index(after: at)...])))
    }
}
