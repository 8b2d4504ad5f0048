import Crypto
import HTTPServer
import JSON
import Testing

@testable import HTTPServices
@testable import ProxyDaemon

@Suite("OpenAPI document", .timeLimit(.minutes(10)))
struct OpenAPITests {
    private func document(_ add: (inout ServiceRouter) -> Void) throws -> JSONValue {
        var router = ServiceRouter()
        add(&router)
        router.addDocument(title: "test")
        return try JSONValue(OpenAPIDocument(title: "test", routes: router.routes).value.bytes)
    }

    private func keys(_ value: JSONValue?) -> [String] {
        guard case .object(let members)? = value else { return [] }
        return members.map(\.key)
    }

    private static let app: @Sendable (inout DaemonSettings) -> Void = { settings in
        var app = MobileAppSettings()
        app.id = "0a1b2c3d-4e5f-6071-8293-a4b5c6d7e8f9"
        app.organisation = "org"
        app.tokenHashes = [HashAlgorithm.sha256.digest(of: [])]
        settings.api.mobileApps["shop"] = app
        settings.api.notifications.enabled = true
    }

    private func document(of daemon: RunningDaemon) async throws -> JSONValue {
        let answer = try await daemon.answer("GET /openapi.json HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
        let body = try #require(answer.firstRange(of: "\r\n\r\n")).upperBound
        return try JSONValue(Array(answer[body...].utf8))
    }

    @Test func `every served route is described`() async throws {
        try await RunningDaemon.with(Self.app) { daemon async throws in #expect(daemon.undescribedRoutes.isEmpty) }
    }

    @Test func `the daemon's document is served without a key and names its routes`() async throws {
        try await RunningDaemon.with(Self.app) { daemon async throws in
            let document = try await document(of: daemon)
            #expect(document["openapi"] == "3.1.0")
            let paths = keys(document["paths"])
            #expect(paths.contains("/v1/dead-tokens"))
            #expect(paths.contains("/token/{username}/{selector}/{token}"))
            #expect(paths.contains("/api/v1.0/orgs/{org}/pushdeviceregistration/devices/batch"))
            #expect(paths.contains("/openapi.json"))
            #expect(!paths.contains { $0.contains("{}") || $0.contains("{*}") })
        }
    }

    @Test func `operations have ids of their own, and every reference leads somewhere`() async throws {
        try await RunningDaemon.with(Self.app) { daemon async throws in
            let document = try await document(of: daemon)
            let paths = document["paths"]
            let ids = keys(paths).flatMap { path in
                keys(paths?[path]).map { paths?[path]?[$0]?["operationId"]?.string }
            }
            #expect(ids.count > 60)
            #expect(!ids.contains(nil) && Set(ids).count == ids.count)
            for reference in references(document) {
                let names = reference.split(separator: "/").dropFirst()
                let target = names.reduce(Optional(document)) { $0?[String($1)] }
                #expect(reference.hasPrefix("#/") && target != nil, "\(reference)")
            }
        }
    }

    @Test func `routes without a key that show a token answer 429, too`() async throws {
        try await RunningDaemon.with(Self.app) { daemon async throws in
            let paths = try await document(of: daemon)["paths"]
            let base = "/api/v1.0/orgs/{org}/pushdeviceregistration/devices"
            for path in ["", "/batch", "/status", "/cleanup", "/cleanup/batch"] {
                let operation = paths?[base + path]?["post"]
                #expect(operation?["responses"]?["429"]?["$ref"] == "#/components/responses/TooManyLogins")
                #expect(operation?["responses"]?["401"] == nil)
            }
            #expect(paths?["/healthz"]?["get"]?["responses"]?["429"] == nil)
        }
    }

    private func references(_ value: JSONValue) -> [String] {
        switch value {
        case .object(let members):
            members.flatMap { member in
                member.key == "$ref" ? [member.value.string ?? ""] : references(member.value)
            }
        case .array(let elements): elements.flatMap(references)
        case .null, .bool, .number, .string: []
        }
    }

    private struct Thing: Codable, DescribedBody {
        static let notes: [String: JSONSchema] = ["size": .number(1...9)]
        let size: Int
        let names: [String]
        let age: Int32?
    }

    @Test func `an operation has its scope, its parameters and its answers`() throws {
        let document = try document { router in
            router.add(
                "PUT", "/v1/things/{}", scope: .pushes, domains: .byDomain,
                described: RouteDescription("putThing", "Puts a thing").path("name", "Its name", .text(1...64))
                    .query("dry", "Only looks", .flag).body(Thing.self).done("It is put")
                    .problem(404, "There is none")
            ) { call throws(ServiceProblem) in call.answerDone() }
            router.add("GET", "/v1/secret", scope: .admin, domains: .wholeDaemon) { call throws(ServiceProblem) in
                call.answerDone()
            }
        }
        let operation = document["paths"]?["/v1/things/{name}"]?["put"]
        #expect(operation?["operationId"] == "putThing")
        #expect(operation?["x-scope"] == "pushes")
        #expect(operation?["x-domains"] == "by-domain")
        #expect(document["paths"]?["/openapi.json"]?["get"]?["x-domains"] == nil)
        #expect(operation?["security"] == [["key": ["pushes"]]])
        #expect(keys(operation?["responses"]) == ["200", "400", "401", "403", "404", "413", "429", "431"])
        #expect(operation?["parameters"]?.array?.map { $0["in"]?.string } == ["path", "query"])
        let body = operation?["requestBody"]?["content"]?["application/json"]?["schema"]
        #expect(body?["required"] == ["size", "names"])
        #expect(
            body?["properties"] == [
                "size": ["type": "integer", "minimum": .number(1), "maximum": .number(9)],
                "names": ["type": "array", "items": ["type": "string"]], "age": ["type": "integer"],
            ])
        // `/openapi.json` must not describe the HTTP route `/v1/secret`.
        #expect(document["paths"]?["/v1/secret"] == nil)
    }
}
