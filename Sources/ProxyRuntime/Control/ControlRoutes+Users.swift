import Bytes
import HTTPServer
import Persistence
import ProxyCore
import Registration

/// Users for digest authentication. The store lists them: it has them in order, the engine has not.
extension ControlRoutes {
    func registerUsers(in router: inout ServiceRouter) {
        router.add("GET", "/v1/users", scope: .admin, described: .users, users)
        router.add("PUT", "/v1/users", scope: .admin, described: .putUser, putUser)
        router.add("GET", "/v1/users/{}", scope: .admin, described: .user) { call throws(ServiceProblem) in
            _ = try known(call)
            call.answer(UserReport(name: call.parameter()))
        }
        router.add("DELETE", "/v1/users/{}", scope: .admin, described: .removeUser, removeUser)
    }

    private func users(_ call: ServiceCall) throws(ServiceProblem) {
        let limit = try call.pageLimit()
        var last: (name: ByteString, realm: ByteString) = (.empty, .empty)
        if let after = call.request.query("after") {
            guard let user = Self.user(after) else { throw ServiceProblem(400, "after is no user@domain") }
            last = user
        }
        call.askStore { [store, last] in
            var names = try await store.userNames(after: last.name, in: last.realm, limit: limit + 1)
            let next = names.count > limit ? names[limit - 1] : nil
            if names.count > limit { names.removeLast() }
            call.answer(UserPage(users: names.map { UserReport(name: $0) }, next: next))
        }
    }

    private func putUser(_ call: ServiceCall) throws(ServiceProblem) {
        let request = try call.body(as: UserRequest.self, expected: "name, and password or ha1MD5 and ha1SHA256")
        let credentials: UserCredentials
        do throws(StartError) {
            credentials = try request.credentials(settings)
        } catch {
            throw ServiceProblem(400, "the user cannot be added", detail: error.description)
        }
        guard let added = credentials.digestUser else {
            throw ServiceProblem(400, "the name must be user@domain, without slashes, and the hashes hexadecimal")
        }
        write(.addUser(added), for: call) { $0.userAdded(added) }
    }

    private func removeUser(_ call: ServiceCall) throws(ServiceProblem) {
        let (name, realm) = try known(call)
        write(.removeUser(name: name, realm: realm), for: call) { $0.userRemoved(name: name, realm: realm) }
    }

    /// The user whom the path names.
    private func known(_ call: ServiceCall) throws(ServiceProblem) -> (name: ByteString, realm: ByteString) {
        guard let user = Self.user(call.parameter()),
            withEngine({ engine, _ in engine.users.user(named: user.name, realm: user.realm) != nil })
        else { throw ServiceProblem(404, "no user is called \(call.parameter())") }
        return user
    }

    private static func user(_ text: String) -> (name: ByteString, realm: ByteString)? {
        guard let at = text.lastIndex(of: "@") else { return nil }
        return (ByteString(String(text[..<at])), ByteString(String(text[text.index(after: at)...])))
    }

    /// Tells the engine when the change is on the disk, and then whoever ordered it.
    private func write(
        _ change: ServiceChange, for call: ServiceCall, then tell: @escaping @Sendable (ProxyEngine) -> Void
    ) {
        let shard = shard
        store.commit([change]) { result in
            guard result.isStored else { return call.answer(.notStored) }
            shard.assumeIsolated { $0.withEngine { engine, _ in tell(engine) } }
            call.answerDone()
        }
    }
}

extension UserCredentials {
    private static let nameLimit = 512

    /// `nil` when the name or a hash is not well-formed, or the name could not stand in a path.
    var digestUser: DigestUser? {
        guard name.isPlain(allowingSlash: false), name.utf8.count <= Self.nameLimit,
            let at = name.lastIndex(of: "@"), at != name.startIndex,
            ha1MD5.utf8.count == 32, ha1SHA256.utf8.count == 64,
            ha1SHA512_256.map({ $0.utf8.count == 64 }) ?? true,
            (ha1MD5 + ha1SHA256 + (ha1SHA512_256 ?? "")).utf8.allSatisfy({ $0.hexValue != nil })
        else { return nil }
        var ha1 = [DigestAlgorithm.md5: ha1MD5, .sha256: ha1SHA256]
        ha1[.sha512_256] = ha1SHA512_256
        return DigestUser(
            name: ByteString(String(name[..<at])), realm: ByteString(String(name[name.index(after: at)...])),
            ha1: ha1.mapValues { ByteString($0.lowercased()) })
    }
}
