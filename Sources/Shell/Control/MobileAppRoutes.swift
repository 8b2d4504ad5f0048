import HTTPServices
import Persistence
import ProxyRuntime
import Reactor
import Timekeeping

/// The operators' HTTP routes for mobile apps. A request to add an app has only the hash of the ApiToken, so that only
/// the operator sees the token.
struct MobileAppRoutes {
    let apps: MobileApps
    let store: any ProxyStore
    let loop: EventLoop

    func register(in router: inout ServiceRouter) {
        router.add("GET", "/v1/apps", .apps) { call throws(ServiceProblem) in
            let domains = call.domains
            call.answer(apps.reports.filter { $0.isOf(domains) })
        }
        router.add("PUT", "/v1/apps", .addApp) { call throws(ServiceProblem) in try add(call) }
        router.add("DELETE", "/v1/apps/{}", .removeApp) { call throws(ServiceProblem) in try remove(call) }
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
        let domains = call.domains
        guard domains == .wholeDaemon || app.domain.map(domains.permits) == true else {
            throw ServiceProblem(
                403, "this key is only for some domains",
                detail: "the user of the app must be {{user}}@DOMAIN of the key")
        }
        if let conflict = apps.conflict(with: app, addedBy: domains) { throw ServiceProblem(409, conflict) }
        apps.addBegins(app)
        store.commit([.addApp(app)]) { result in
            apps.addEnds(app, isStored: result.isStored && result.isFound)
            guard result.isStored else { return call.answer(.notStored) }
            guard result.isFound else {
                return call.answer(ServiceProblem(409, "an app with this name or id was just added at another node"))
            }
            call.answerDone()
        }
    }

    private func remove(_ call: ServiceCall) throws(ServiceProblem) {
        call.changes(call.parameter())
        let domains = call.domains
        guard let app = apps.reports.first(where: { $0.isNamed(call.parameter()) && $0.isOf(domains) }) else {
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
