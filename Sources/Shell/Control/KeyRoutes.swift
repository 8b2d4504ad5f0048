import HTTPServices
import Persistence
import ProxyRuntime
import Reactor
import Timekeeping

/// The operators' HTTP routes for keys of the HTTP API. A request to add a key has only the key's hash, so that only
/// the operator sees the key.
///
/// An administrator of some domains can see and change only keys whose domains are all among the administrator's
/// domains.
struct KeyRoutes {
    let keys: APIKeyRing
    /// The domains that the daemon serves.
    let domains: [String]
    let store: any ProxyStore
    let loop: EventLoop

    func register(in router: inout ServiceRouter) {
        router.add("GET", "/v1/apikeys", .keys) { call throws(ServiceProblem) in
            let domains = call.domains
            call.answer(keys.all.filter { domains.includes($0.domains) }.map { APIKeyReport($0) })
        }
        router.add("PUT", "/v1/apikeys", .addKey) { call throws(ServiceProblem) in try add(call) }
        router.add("DELETE", "/v1/apikeys/{}", .removeKey) { call throws(ServiceProblem) in try remove(call) }
    }

    private func add(_ call: ServiceCall) throws(ServiceProblem) {
        let expected = "name, hash and scopes, and optionally domains"
        let request = try call.body(as: APIKeyRequest.self, expected: expected)
        guard let key = request.key(at: loop.moment.date) else { throw ServiceProblem(400, "expected \(expected)") }
        call.changes(
            "\(key.name) \(key.scopes.names)\(key.domains.names.map { " for \($0.joined(separator: ","))" } ?? "")")
        guard call.domains.includes(key.domains) else {
            throw ServiceProblem(
                403, "this key is only for some domains", detail: "it can add keys for these domains only")
        }
        if let complaint = APIKeyRequest.complaint(about: key, domains: domains) {
            throw ServiceProblem(400, "the key cannot be added", detail: complaint)
        }
        if let conflict = keys.conflict(with: key, addedBy: call.domains) { throw ServiceProblem(409, conflict) }
        keys.addBegins(key)
        store.commit([.addKey(key.stored)]) { result in
            keys.addEnds(key, isStored: result.isStored && result.isFound)
            guard result.isStored else { return call.answer(.notStored) }
            guard result.isFound else {
                return call.answer(ServiceProblem(409, "a key named \(key.name) was just added at another node"))
            }
            call.answerDone()
        }
    }

    private func remove(_ call: ServiceCall) throws(ServiceProblem) {
        let name = call.parameter()
        call.changes(name)
        guard let key = keys[name], call.domains.includes(key.domains) else {
            throw ServiceProblem(404, "no key is called \(name)")
        }
        store.commit([.removeKey(name: name)]) { result in
            guard result.isStored else { return call.answer(.notStored) }
            keys.remove(name)
            call.answerDone()
        }
    }
}
