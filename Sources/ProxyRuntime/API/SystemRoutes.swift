/// What probes ask without a key.
struct SystemRoutes {
    /// The daemon can do its work.
    let isReady: () -> Bool

    private struct State: Encodable {
        let status: String
    }

    private struct VersionReport: Encodable {
        let version: String
    }

    func register(in router: inout ServiceRouter) {
        // That the loop answers is what the question is about.
        router.add("GET", "/healthz", scope: nil) { call throws(ServiceProblem) in call.answer(State(status: "ok")) }
        router.add("GET", "/readyz", scope: nil) { call throws(ServiceProblem) in
            guard isReady() else { throw ServiceProblem(503, "not ready") }
            call.answer(State(status: "ready"))
        }
        router.add("GET", "/version", scope: nil) { call throws(ServiceProblem) in
            call.answer(VersionReport(version: Version.current))
        }
    }
}
