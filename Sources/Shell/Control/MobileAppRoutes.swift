import HTTPServices
import Persistence
import ProxyRuntime
import Reactor
import Timekeeping

/// The operators' routes for mobile apps. A request to add an app has only the hash of the ApiToken, so that only the
/// operator sees the token.
struct MobileAppRoutes {
    let apps: MobileApps
    let store: any ProxyStore
    let loop: EventLoop

    func register(in router: inout ServiceRouter) {
        router.add("GET", "/v1/apps", scope: .admin, described: .apps) { call throws(ServiceProblem) in
            call.answer(apps.reports)
        }
        router.add("PUT", "/v1/apps", scope: .admin, described: .addApp) { call throws(ServiceProblem) in
            try add(call)
        }
        router.add("DELETE", "/v1/apps/{}", scope: .admin, described: .removeApp) { call throws(ServiceProblem) in
            try remove(call)
        }
    }

    private func add(_ call: ServiceCall) throws(ServiceProblem) {
        let request = try call.body(as: AppRequest.self, expected: "name, id, org and hash")
        let app: StoredMobileApp
        do throws(StartError) {
            app = try request.app(at: loop.moment.date)
        } catch {
            throw ServiceProblem(400, "the app cannot be added", detail: error.description)
        }
        call.changes(app.name)
        if let conflict = apps.conflict(with: app) { throw ServiceProblem(409, conflict) }
        store.commit([.addApp(app)]) { result in
            guard result.isStored else { return call.answer(.notStored) }
            apps.add(app)
            call.answerDone()
        }
    }

    private func remove(_ call: ServiceCall) throws(ServiceProblem) {
        call.changes(call.parameter())
        guard let app = apps.reports.first(where: { $0.isNamed(call.parameter()) }) else {
            throw ServiceProblem(404, "no app is called \(call.parameter())")
        }
        let name = app.name
        guard !app.isFixed else { throw ServiceProblem(409, "\(name) is defined in the settings; remove it there") }
        store.commit([.removeApp(name: name)]) { result in
            guard result.isStored else { return call.answer(.notStored) }
            apps.remove(name)
            call.answerDone()
        }
    }
}
