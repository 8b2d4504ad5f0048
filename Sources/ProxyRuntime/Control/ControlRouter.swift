import Addressing
import Foundation
import ProxyCore
import PushDelivery
import Registration
import SIPGrammar
import Timekeeping

/// What a control request means: method, path and body in, status and JSON out.
struct ControlRouter {
    let shard: ProxyShard
    let store: StoreService

    struct Answer {
        var status: Int
        var body: [UInt8]
    }

    /// The path comes in percent-decoded segments.
    func answer(_ method: String, _ path: [String], body: [UInt8]) -> Answer {
        guard path.first == "v1", (2...4).contains(path.count) else { return problem(404, "no such resource") }
        let name = path.count > 2 ? path[2] : ""
        // The name is a placeholder in the pattern, so that the table reads like the API.
        let pattern = path.enumerated().map { $0.offset == 2 ? "NAME" : $0.element }.joined(separator: "/")
        switch "\(method) \(pattern)" {
        case "GET v1/held": return json(heldCalls())
        case "GET v1/users": return json(users())
        case "PUT v1/users": return putUser(body)
        case "DELETE v1/users/NAME": return removeUser(name)
        case "GET v1/users/NAME/bucket": return json(bucket(of: name))
        case "GET v1/users/NAME/bindings": return json(bindings(of: name))
        case "GET v1/providers": return json(providers())
        case "POST v1/providers/NAME/disable": return switchProvider(name, on: false)
        case "POST v1/providers/NAME/enable": return switchProvider(name, on: true)
        default: return problem(404, "no such resource")
        }
    }

    // MARK: Looking

    private func heldCalls() -> [HeldCallReport] {
        withEngine { engine, _ in engine.heldCalls.map { HeldCallReport($0) } }
    }

    private func bucket(of name: String) -> [BucketEntryReport] {
        guard let aor = Self.aor(name) else { return [] }
        return withEngine { engine, _ in
            engine.buckets.entries(of: aor).map { entry in
                BucketEntryReport(
                    callRef: entry.callRef.description, caller: entry.caller.string, date: entry.date.seconds,
                    isOver: entry.isOver, devices: entry.devices)
            }
        }
    }

    private func bindings(of name: String) -> [BindingReport] {
        guard let aor = Self.aor(name) else { return [] }
        return withEngine { engine, now in
            engine.targets(of: aor, now: now).map { target in
                BindingReport(
                    id: target.id.rawValue, contact: target.requestURI.string,
                    flow: "\(target.flow.transport.parameterName):\(target.flow.remote)",
                    token: target.pushToken?.description, isFresh: target.isFresh)
            }
        }
    }

    private func providers() -> [ProviderReport] {
        withEngine { engine, _ in ProviderReport.all(of: engine) }
    }

    private func users() -> [UserReport] {
        withEngine { engine, _ in engine.users.all.map { UserReport(name: "\($0.name)@\($0.realm)") } }
    }

    // MARK: Changing

    private func switchProvider(_ name: String, on isOn: Bool) -> Answer {
        guard let provider = PushProvider(rawValue: name) else { return problem(404, "no provider is called \(name)") }
        let isConfigured = withEngine { engine, now in
            engine.providerSwitched(provider, on: isOn, now: now)
            return engine.configuredProviders.contains(provider)
        }
        return isConfigured ? json([:] as [String: String]) : problem(409, "\(name) is not configured")
    }

    private func putUser(_ body: [UInt8]) -> Answer {
        guard let user = try? JSONDecoder().decode(UserCredentials.self, from: Data(body)), let added = user.digestUser
        else { return problem(400, "expected name, ha1MD5 and ha1SHA256") }
        guard store.add(added) else { return problem(503, "the store takes no changes") }
        withEngine { engine, _ in engine.userAdded(added) }
        return json([:] as [String: String])
    }

    private func removeUser(_ name: String) -> Answer {
        guard let at = name.lastIndex(of: "@") else { return problem(400, "expected user@domain") }
        let user = ByteString(String(name[..<at]))
        let realm = ByteString(String(name[name.index(after: at)...]))
        let isKnown = withEngine { engine, _ in engine.users.user(named: user, realm: realm) != nil }
        guard isKnown else { return problem(404, "no user is called \(name)") }
        guard store.removeUser(name: user, realm: realm) else { return problem(503, "the store takes no changes") }
        withEngine { engine, _ in engine.userRemoved(name: user, realm: realm) }
        return json([:] as [String: String])
    }

    // MARK: Helpers

    private func withEngine<Result: Sendable>(_ body: @Sendable (ProxyEngine, Moment) -> Result) -> Result {
        shard.assumeIsolated { $0.withEngine(body) }
    }

    /// `user@domain`, or the same after `sip:`.
    static func aor(_ name: String) -> AddressOfRecord? {
        let bare = name.hasPrefix("sip:") ? String(name.dropFirst(4)) : name
        guard let at = bare.lastIndex(of: "@") else { return nil }
        return AddressOfRecord(
            user: ByteString(String(bare[..<at])), host: ByteString(String(bare[bare.index(after: at)...])).lowercased()
        )
    }

    private func json(_ value: some Encodable) -> Answer {
        guard let data = try? JSONEncoder().encode(value) else { return problem(500, "the answer cannot be written") }
        return Answer(status: 200, body: Array(data))
    }

    func problem(_ status: Int, _ title: String) -> Answer {
        let data = (try? JSONEncoder().encode(ControlProblem(title: title, status: status))) ?? Data()
        return Answer(status: status, body: Array(data))
    }
}

extension HeldCallReport {
    init(_ call: ProxyEngine.HeldCall) {
        self.init(
            callRef: call.callRef.description, aor: call.aor.description, callID: call.callID.string,
            receivedAt: call.receivedAt.seconds, sleeping: call.sleeping, ringing: call.ringing)
    }
}

extension ProviderReport {
    static func all(of engine: ProxyEngine) -> [ProviderReport] {
        engine.configuredProviders.map(\.rawValue).sorted().map { name in
            ProviderReport(name: name, isEnabled: engine.enabledProviders.contains { $0.rawValue == name })
        }
    }
}

extension UserCredentials {
    /// `nil` when the name or a hash is not well-formed.
    var digestUser: DigestUser? {
        guard let at = name.lastIndex(of: "@"), at != name.startIndex,
            ha1MD5.count == 32, ha1SHA256.count == 64, (ha1MD5 + ha1SHA256).allSatisfy(\.isHexDigit)
        else { return nil }
        return DigestUser(
            name: ByteString(String(name[..<at])), realm: ByteString(String(name[name.index(after: at)...])),
            ha1: [.md5: ByteString(ha1MD5.lowercased()), .sha256: ByteString(ha1SHA256.lowercased())])
    }
}
