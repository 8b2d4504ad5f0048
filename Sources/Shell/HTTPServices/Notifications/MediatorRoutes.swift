import Addressing
import Bytes
import HTTPServer
import ProxyCore
import PushDelivery
import Reactor
import Timekeeping

/// The HTTP routes of Acrobits' push server, for servers that name a device by the token that the device reported.
///
/// Only known devices get pushes, so that nobody can push to other devices with the daemon's credentials.
struct MediatorRoutes {
    let service: NotificationService

    func register(in router: inout ServiceRouter) {
        router.add(
            "POST", "/pnm2/send", scope: .pushes, domains: .byDomain, schemes: .bearerOrToken,
            described: .mediator(isForm: false)
        ) { call throws(ServiceProblem) in
            await received(call, isForm: false)
        }
        router.add(
            "POST", "/pnm2", scope: .pushes, domains: .byDomain, schemes: .bearerOrToken,
            described: .mediator(isForm: true)
        ) { call throws(ServiceProblem) in
            await received(call, isForm: true)
        }
    }

    private func received(_ call: ServiceCall, isForm: Bool) async {
        do throws(MediatorAnswer) {
            call.changes("an unknown device")
            let body = try MediatorBody(call.request, isForm: isForm)
            guard let name = ReportedTokens.name(of: body.deviceToken, service.reported.form),
                let device = try await device(called: name, body.selector, in: call.domains)
            else { throw .unknown }
            call.changes("device \(device.id.name)")
            try await order(body, to: device, known: name)
            Self.answer(call, .taken, isForm)
        } catch {
            Self.answer(call, error, isForm)
        }
    }

    private func device(
        called name: ByteString, _ selector: ByteString?, in domains: DomainScope
    ) async throws(MediatorAnswer) -> ProxyEngine.FoundDevice? {
        do throws(DeviceSearch.Overload) {
            return try await service.reported.find(
                ReportedDevices.Wanted(name: name, selector: selector, domains: domains))
        } catch {
            throw .busy
        }
    }

    private func order(
        _ body: MediatorBody, to device: ProxyEngine.FoundDevice, known name: ByteString
    ) async throws(MediatorAnswer) {
        switch ReportedTokens.standing(of: name, appID: body.appID, in: device.token) {
        case .forMessages: break
        case .forCallsOnly: throw .refused("this DeviceToken is for calls")
        case .ofAnotherApp: throw .refused("this DeviceToken belongs to another AppId")
        }
        let notification = body.notification(now: service.loop.moment.date)
        let receipt: NotificationReceipt
        do throws(NotificationRefusal) {
            receipt = try await service.order(notification, for: [.device(device.id)])
        } catch {
            switch error {
            case .payload(let reason): throw .refused(reason)
            case .noRoom: throw .busy
            }
        }
        guard receipt.sent == 0 else { return }
        switch receipt.skipped.first {
        case .deviceLimit: throw MediatorAnswer(code: 500, response: "too many pushes to this device, try later")
        case nil: throw .unknown
        default: throw .refused("the device cannot get messages")
        }
    }

    // MARK: Answers

    struct Text: Codable {
        let code: Int
        /// The value of `code` again, for older clients that read the member `status`.
        let status: Int?
        let response: String
    }

    private static func answer(_ call: ServiceCall, _ result: MediatorAnswer, _ isForm: Bool) {
        call.answer(
            Text(code: result.code, status: isForm ? result.code : nil, response: result.response),
            status: result.isHTTP ? (result.code < 500 ? 400 : 503) : 200)
    }
}

extension MediatorAnswer {
    fileprivate static let taken = MediatorAnswer(code: 200, response: "OK")
    fileprivate static let unknown = MediatorAnswer(code: 404, response: "this DeviceToken is not known")
    fileprivate static let busy = MediatorAnswer(isHTTP: true, code: 500, response: "busy, try later")
}
