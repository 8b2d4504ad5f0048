import HTTPServer
import Testing

@testable import HTTPServices

@Suite("Service router")
struct ServiceRouterTests {
    private let router: ServiceRouter = {
        var router = ServiceRouter()
        for (method, pattern) in [
            ("GET", "/v1/users"), ("PUT", "/v1/users"), ("GET", "/v1/users/{}/bucket"), ("DELETE", "/v1/users/{}"),
            ("GET", "/v1/users/me"),
        ] {
            router.add(method, pattern, scope: .admin, domains: .wholeDaemon) { call throws(ServiceProblem) in
                call.answerDone()
            }
        }
        return router
    }()

    private func pattern(_ method: String, _ target: String) -> String {
        switch router.match(method, HTTPRequest(method: method, target: target).path) {
        case .found(let route, let parameters): "\(route.pattern) \(parameters)"
        case .otherMethod(let methods): "other \(methods)"
        case .nothing: "nothing"
        }
    }

    @Test(arguments: [
        ("GET", "/v1/users", "/v1/users []"), ("HEAD", "/v1/users", "/v1/users []"),
        ("PUT", "/v1/users?x=y", "/v1/users []"), ("POST", "/v1/users", #"other ["GET", "PUT"]"#),
        ("GET", "/v1/users/a%40b/bucket", #"/v1/users/{}/bucket ["a@b"]"#),
        ("GET", "/v1/users/a%2Fb/bucket", #"/v1/users/{}/bucket ["a/b"]"#),
        ("DELETE", "/v1/users/x", #"/v1/users/{} ["x"]"#), ("GET", "/v1/users/me", "/v1/users/me []"),
        ("GET", "/v1/users//bucket", "nothing"), ("GET", "/v1/users/", "nothing"), ("GET", "/", "nothing"),
        ("GET", "//v1/users", "nothing"), ("GET", "/v1/../v1/users", "nothing"), ("GET", "/v1%2fusers", "nothing"),
        ("GET", "/V1/users", "nothing"), ("GET", "/v1/users/x", #"other ["DELETE"]"#),
        ("DELETE", "/v1/users/me", #"other ["GET"]"#),
    ])
    func `paths are compared as they are`(method: String, target: String, expected: String) {
        #expect(pattern(method, target) == expected)
    }
}
