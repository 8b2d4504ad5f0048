import Bytes
import HTTPServer
import HTTPServices
import JSON
import Persistence
import ProxyCore
import ProxyRuntime
package import Registration

/// The operators' HTTP routes for users with digest authentication. Lists of users are read from the store, because the
/// engine does not keep users in order.
extension ControlRoutes {
    func registerUsers(in router: inout ServiceRouter) {
        router.add("GET", "/v1/users", .users) { call throws(ServiceProblem) in try users(call) }
        router.add("PUT", "/v1/users", .putUser) { call throws(ServiceProblem) in try await putUser(call) }
        router.add("GET", "/v1/users/{}", .user) { call throws(ServiceProblem) in
            _ = try await known(call)
            call.answer(UserReport(name: call.parameter()))
        }
        router.add("DELETE", "/v1/users/{}", .removeUser) { call throws(ServiceProblem) in try await removeUser(call) }
    }

    private func users(_ call: ServiceCall) throws(ServiceProblem) {
        let wantsLines = (call.request.field("accept") ?? "").lowercased().contains(Self.linesType)
        let limit = wantsLines ? Self.pageLimits.upperBound : try call.pageLimit()
        var last: (name: ByteString, realm: ByteString) = (.empty, .empty)
        if let after = call.request.query("after") {
            guard let user = UserBatch.parts(of: after) else { throw ServiceProblem(400, "after is not a user@domain") }
            last = user
        }
        let visible = realms.realms(within: call.domains)
        if wantsLines { return streamUsers(call, of: visible, after: last, limit) }
        call.askStore { [store, last] in
            var names = try await store.userNames(after: last.name, in: last.realm, limit: limit + 1, of: visible)
            let next = names.count > limit ? names[limit - 1] : nil
            if names.count > limit { names.removeLast() }
            call.answer(UserPage(users: names.map { UserReport(name: $0) }, next: next))
        }
    }

    private static let linesType = "application/x-ndjson"

    private static func lines(_ names: [String]) -> [UInt8] {
        names.flatMap { JSONValue.members([("name", .string($0))]).bytes + [UInt8(ascii: "\n")] }
    }

    /// Sends all users, one on each line; the next page is read after the previous page was sent.
    private func streamUsers(
        _ call: ServiceCall, of visible: [ByteString]?, after last: (name: ByteString, realm: ByteString), _ limit: Int
    ) {
        call.askStore { [store] in
            var names = try await store.userNames(after: last.name, in: last.realm, limit: limit, of: visible)
            let body = call.stream(HTTPResponse(type: Self.linesType, body: Self.lines(names)))
            while names.count == limit, let last = names.last.flatMap(UserBatch.parts) {
                // If the store cannot be read, the connection is closed in the middle of the answer. A normal end of
                // the answer would mean a complete list of users.
                guard
                    let more = try? await store.userNames(after: last.name, in: last.realm, limit: limit, of: visible),
                    await body.send(Self.lines(more))
                else { return }
                names = more
            }
            body.end()
        }
    }

    private func putUser(_ call: ServiceCall) async throws(ServiceProblem) {
        let request = try call.body(as: UserRequest.self, expected: "name, and password or ha1MD5 and ha1SHA256")
        call.changes(request.name)
        let credentials: UserCredentials
        do throws(StartError) {
            credentials = try request.credentials(realms.seen(by: call.domains))
        } catch {
            throw ServiceProblem(400, "the user cannot be added", detail: error.description)
        }
        guard let added = credentials.digestUser else {
            throw ServiceProblem(400, "the name must be user@domain, without slashes, and the hashes hexadecimal")
        }
        guard realms.permits(realm: added.realm, call.domains) else {
            throw ServiceProblem(
                403, "this key is only for some domains",
                detail: "the realm \(added.realm) is not of these domains alone")
        }
        try await write([.addUser(added)])
        await door.ask(.everything) { engine, now in engine.userAdded(added, now: now) }
        call.answerDone()
    }

    private func removeUser(_ call: ServiceCall) async throws(ServiceProblem) {
        call.changes(call.parameter())
        let (name, realm) = try await known(call)
        let ruled = realms.users(named: name, of: realm)
        try await write([.removeUser(name: name, realm: realm)] + ruled.map { .removeRules($0) })
        await door.ask(.everything) { engine, now in
            engine.userRemoved(name: name, realm: realm, now: now)
            for aor in ruled { engine.rulesRemoved(of: aor) }
        }
        call.answerDone()
    }

    /// Returns the stored user whom the path names.
    private func known(_ call: ServiceCall) async throws(ServiceProblem) -> (name: ByteString, realm: ByteString) {
        guard let user = UserBatch.parts(of: call.parameter()), realms.permits(realm: user.realm, call.domains),
            await door.user(named: user.name, realm: user.realm) != nil
        else { throw ServiceProblem(404, "no user is called \(call.parameter())") }
        return user
    }
}

extension UserCredentials {
    package static let nameLimit = 512

    package var isWellFormed: Bool { digestUser != nil }

    /// Whether the text is hexadecimal and as long as a hash of the algorithm.
    package static func isHash(_ text: String, _ algorithm: DigestAlgorithm) -> Bool {
        text.utf8.count == algorithm.digitCount && text.utf8.allSatisfy { $0.hexValue != nil }
    }

    /// The user to store; `nil` if the name or a hash is malformed, or the name cannot be part of a path.
    var digestUser: DigestUser? {
        guard name.isPlain(allowingSlash: false), name.utf8.count <= Self.nameLimit,
            let at = name.lastIndex(of: "@"), at != name.startIndex,
            Self.isHash(ha1MD5, .md5), ha1SHA256.map({ Self.isHash($0, .sha256) }) ?? true,
            ha1SHA512_256.map({ Self.isHash($0, .sha512_256) }) ?? true
        else { return nil }
        var ha1 = [DigestAlgorithm.md5: ha1MD5]
        ha1[.sha256] = ha1SHA256
        ha1[.sha512_256] = ha1SHA512_256
        return DigestUser(
            name: ByteString(String(name[..<at])), realm: ByteString(String(name[name.index(after: at)...])),
            ha1: ha1.mapValues { ByteString($0.lowercased()) })
    }
}
