import Addressing
import Bytes
import HTTPServer
import JSON
import ProxyCore
import ProxyRuntime
import PushDelivery
import Registration

/// The HTTP routes by which apps get the codes of their devices, as on the 10darts platform. The routes create no
/// devices, because devices register by SIP or are reported over HTTP.
///
/// Only the event loop of the shard uses the HTTP routes for device codes.
struct DeviceCodeRoutes {
    let door: ShardDoor
    let codes: DeviceCodes
    let search: DeviceSearch

    struct Answer: Codable {
        let code: String
        let device: String
    }

    func register(in router: inout ServiceRouter) {
        for end in ["/", ""] {
            router.add(
                "POST", "/api/v1/devices" + end, scope: .lifecycleReport, domains: .byDomain,
                schemes: .bearerOrToken, isChange: false, described: .deviceCode
            ) { call throws(ServiceProblem) in
                try await tell(call)
            }
            router.add(
                "POST", "/api/v1/devices/{}/access" + end, scope: .lifecycleReport, domains: .byDomain,
                schemes: .bearerOrToken, isChange: false, described: .deviceAccess
            ) { call throws(ServiceProblem) in
                try await accessed(call)
            }
        }
    }

    private func tell(_ call: ServiceCall) async throws(ServiceProblem) {
        let body: JSONValue
        do throws(JSONError) {
            body = try JSONValue(call.request.body)
        } catch {
            throw ServiceProblem(400, "the body cannot be read as JSON", detail: "\(error)")
        }
        guard let text = body["token"]?.string, (1...4096).contains(text.utf8.count) else {
            throw ServiceProblem(400, "expected token as a text of at most 4096 bytes")
        }
        guard let providers = body["platform"]?.string.flatMap(Self.providers) else {
            throw ServiceProblem(400, "platform must be android, ios, ios_sandbox, web or messenger")
        }
        let (token, domains) = (ByteString(text), call.domains)
        let found: DeviceSearch.FoundDevice?
        do throws(DeviceSearch.Overload) {
            found = try await search.find(token, of: providers) {
                $0.token.isNamed(token) && domains.permits($0.domain)
            }
        } catch {
            throw ServiceProblem(503, "too many searches for devices wait", retryAfter: 5)
        }
        guard let device = found else { throw .noSuchDevice }
        let code = codes.code(of: device.id)
        call.answer(Answer(code: code, device: "/api/v1/devices/\(code)/"), status: 201)
    }

    private static func providers(_ platform: String) -> Set<PushProvider>? {
        switch platform {
        case "android": PushSettings.providers(on: .android)
        case "ios", "ios_sandbox": PushSettings.providers(on: .apple)
        case "web": PushSettings.providers(on: .web)
        case "messenger": []
        default: nil
        }
    }

    /// Answers an app's report that the user opened the app. The daemon ignores the report, but the app expects a
    /// successful answer.
    private func accessed(_ call: ServiceCall) async throws(ServiceProblem) {
        guard let device = codes.device(of: call.parameter()) else { throw .noSuchDevice }
        guard
            await door.ask(.device(device), { engine, _ in engine.domain(of: device) }).map(call.domains.permits)
                == true
        else { throw .noSuchDevice }
        call.answer(HTTPResponse(status: 200))
    }
}

extension ServiceProblem {
    static var noSuchDevice: ServiceProblem { ServiceProblem(404, "no such device") }
}
