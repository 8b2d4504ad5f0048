import Addressing
import Calling
import HTTPServer
import HTTPServices
import Persistence
import ProxyCore
import ProxyRuntime
import Registration
import Routing

/// The operators' HTTP routes for the rules of users for calls.
extension ControlRoutes {
    func registerUserRules(in router: inout ServiceRouter) {
        router.add("GET", "/v1/users/{}/rules", .userRules) { call throws(ServiceProblem) in
            let aor = try await knownUser(call)
            let (rules, devices) = await door.ask(.user(aor)) { engine, now in
                (engine.rules(of: aor) ?? CallRules(), engine.ruledDevices(of: aor, now: now))
            }
            call.answer(UserRulesBody(rules, devices: devices))
        }
        router.add("PUT", "/v1/users/{}/rules", .putUserRules) { call throws(ServiceProblem) in
            try await putRules(call)
        }
        router.add("DELETE", "/v1/users/{}/rules", .removeUserRules) { call throws(ServiceProblem) in
            call.changes("rules of \(call.parameter())")
            try await setRules(CallRules(), of: try await knownUser(call))
            call.answerDone()
        }
    }

    private func putRules(_ call: ServiceCall) async throws(ServiceProblem) {
        call.changes("rules of \(call.parameter())")
        let aor = try await knownUser(call)
        let body: UserRulesBody
        do throws(UserRulesBody.Fault) {
            body = try UserRulesBody(json: call.request.body)
        } catch {
            throw ServiceProblem(400, "the rules are refused", detail: error.sentence)
        }
        let checked = await door.ask(.user(aor)) { engine, now in
            Result { () throws(UserRulesBody.Fault) in
                try body.rules(
                    devices: engine.ruledDevices(of: aor, now: now), present: engine.rules(of: aor),
                    knowsZone: engine.knowsZone)
            }
        }
        switch checked {
        case .failure(let fault): throw ServiceProblem(400, "the rules are refused", detail: fault.sentence)
        case .success(let rules): try await setRules(rules, of: aor)
        }
        call.answerDone()
    }

    private func setRules(_ rules: CallRules, of aor: AddressOfRecord) async throws(ServiceProblem) {
        guard !rules.isEmpty else {
            try await write([.removeRules(aor)])
            return await door.ask(.user(aor)) { engine, _ in engine.rulesRemoved(of: aor) }
        }
        let row = StoredUserRules(aor: aor, rules: rules)
        try await write([.setRules(row)])
        await door.ask(.user(aor)) { engine, _ in engine.rulesSet(row) }
    }

    /// The user in the path. If the caller may not reach the user's domain, the user is treated as unknown.
    ///
    /// Users of databases, and users without password, can have rules too: the user must be known, or have a device.
    private func knownUser(_ call: ServiceCall) async throws(ServiceProblem) -> AddressOfRecord {
        let aor = try call.aor()
        guard call.domains.permits(aor.host) else { throw ServiceProblem(404, "no user is called \(aor)") }
        await door.read(aor)
        guard
            await door.ask(
                .user(aor),
                { engine, _ in
                    engine.identity.domains.contains(aor.host) && (engine.isKnown(aor) || engine.rules(of: aor) != nil)
                })
        else { throw ServiceProblem(404, "no user is called \(aor)") }
        return aor
    }
}
