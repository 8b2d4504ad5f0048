import HTTPServices
import Persistence
import Reactor
import Timekeeping

/// The operators' routes for keys of the HTTP API. A request to add a key has only the key's hash, so that only the
/// operator sees the key.
struct KeyRoutes {
    let keys: APIKeyRing
    let store: any ProxyStore
    let loop: EventLoop

    func register(in router: inout ServiceRouter) {
        router.add("GET", "/v1/apikeys", scope: .admin, described: .keys) { call throws(ServiceProblem) in
            call.answer(keys.all.map { APIKeyReport($0) })
        }
        router.add("PUT", "/v1/apikeys", scope: .admin, described: .addKey) { call throws(ServiceProblem) in
            try add(call)
        }
        router.add("DELETE", "/v1/apikeys/{}", scope: .admin, described: .removeKey) { call throws(ServiceProblem) in
            try remove(call)
        }
    }

    private func add(_ call: ServiceCall) throws(ServiceProblem) {
        let expected = "name, hash and scopes"
        guard let key = try call.body(as: APIKeyRequest.self, expected: expected).key(at: loop.moment.date) else {
            throw ServiceProblem(400, "expected \(expected)")
        }
        call.changes("\(key.name) \(key.scopes.names)")
        guard keys[key.name] == nil else { throw ServiceProblem(409, "a key named \(key.name) exists already") }
        guard !keys.isFull else { throw ServiceProblem(409, "the limit of \(APIKeyRing.limit) keys is reached") }
        store.commit([.addKey(key.stored)]) { result in
            guard result.isStored else { return call.answer(.notStored) }
            keys.add(key)
            call.answerDone()
        }
    }

    private func remove(_ call: ServiceCall) throws(ServiceProblem) {
        let name = call.parameter()
        call.changes(name)
        guard keys[name] != nil else { throw ServiceProblem(404, "no key is called \(name)") }
        store.commit([.removeKey(name: name)]) { result in
            guard result.isStored else { return call.answer(.notStored) }
            keys.remove(name)
            call.answerDone()
        }
    }
}
