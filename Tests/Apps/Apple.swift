import Foundation

// Stand-ins for the declarations of PushKit, CallKit, UIKit and CryptoKit that docs/App-developers.md uses. The script
// `etc/app-examples` compiles the document's examples with this file, but does not run them. Methods that are optional
// in Apple's protocols are required here, so that a misspelled method does not compile.

// MARK: PushKit

struct PKPushType: Hashable { static let voIP = PKPushType() }

class PKPushCredentials: NSObject {
    var token: Data { Data() }
    var type: PKPushType { .voIP }
}

class PKPushPayload: NSObject {
    var type: PKPushType { .voIP }
    var dictionaryPayload: [AnyHashable: Any] { [:] }
}

class PKVoIPPushMetadata: NSObject { var mustReport: Bool { true } }

class PKPushRegistry: NSObject {
    weak var delegate: (any PKPushRegistryDelegate)?
    var desiredPushTypes: Set<PKPushType>?

    init(queue: DispatchQueue?) {}
}

protocol PKPushRegistryDelegate: NSObjectProtocol {
    func pushRegistry(
        _ registry: PKPushRegistry, didUpdate pushCredentials: PKPushCredentials, for type: PKPushType)
    func pushRegistry(
        _ registry: PKPushRegistry, didReceiveIncomingPushWith payload: PKPushPayload, for type: PKPushType,
        completion: @escaping () -> Void)
    func pushRegistry(
        _ registry: PKPushRegistry, didReceiveIncomingVoIPPushWith payload: PKPushPayload,
        metadata: PKVoIPPushMetadata, withCompletionHandler completion: @escaping @Sendable () -> Void)
    func pushRegistry(_ registry: PKPushRegistry, didInvalidatePushTokenFor type: PKPushType)
}

// MARK: CallKit

class CXProviderConfiguration: NSObject {}

class CXHandle: NSObject {
    enum HandleType: Int { case generic = 1, phoneNumber, emailAddress }

    init(type: HandleType, value: String) {}
}

class CXCallUpdate: NSObject {
    var remoteHandle: CXHandle?
    var localizedCallerName: String?
    var hasVideo = false
}

enum CXCallEndedReason: Int { case failed = 1, remoteEnded, unanswered, answeredElsewhere, declinedElsewhere }

struct CXErrorCodeIncomingCallError: Error {
    enum Code: Int {
        case unknown, unentitled, callUUIDAlreadyExists, filteredByDoNotDisturb, filteredByBlockList
    }
    var code: Code { .unknown }
}

class CXAction: NSObject {
    func fulfill() {}
    func fail() {}
}

class CXCallAction: CXAction { let callUUID = UUID() }
class CXAnswerCallAction: CXCallAction {}
class CXEndCallAction: CXCallAction {}

class CXProvider: NSObject {
    init(configuration: CXProviderConfiguration) {}
    func setDelegate(_ delegate: (any CXProviderDelegate)?, queue: DispatchQueue?) {}
    func reportNewIncomingCall(
        with UUID: UUID, update: CXCallUpdate, completion: @escaping ((any Error)?) -> Void
    ) {}
    func reportCall(with UUID: UUID, endedAt dateEnded: Date?, reason endedReason: CXCallEndedReason) {}
}

protocol CXProviderDelegate: NSObjectProtocol {
    func providerDidReset(_ provider: CXProvider)
    func provider(_ provider: CXProvider, perform action: CXAnswerCallAction)
    func provider(_ provider: CXProvider, perform action: CXEndCallAction)
}

// MARK: UIKit

class UIApplication: NSObject {
    struct LaunchOptionsKey: Hashable {}

    func registerForRemoteNotifications() {}
}

protocol UIApplicationDelegate: NSObjectProtocol {
    func application(
        _ application: UIApplication,
        didFinishLaunchingWithOptions launchOptions: [UIApplication.LaunchOptionsKey: Any]?
    ) -> Bool
    func application(
        _ application: UIApplication, didRegisterForRemoteNotificationsWithDeviceToken deviceToken: Data)
}

// MARK: CryptoKit

enum Insecure {
    enum SHA1 {
        typealias Digest = [UInt8]
        static func hash<D: DataProtocol>(data: D) -> Digest { [UInt8](repeating: 0, count: 20) }
    }
}

// MARK: The app's own SIP stack and list of calls

struct Stack {
    func register(provider: String, param: String, prid: String) {}
    func wake() {}
    func decline(_ call: UUID) {}
    func end(_ call: UUID) {}
    func endAll() {}
}

struct Invite {
    var callID = ""
    var update = CXCallUpdate()
    func ring() {}
    func answer() {}
}

let sip = Stack()
let isDebugBuild = false

extension Calls {
    func isOver(_ call: UUID) -> Bool { false }
    func isKnown(_ call: UUID) -> Bool { false }
    func remember(over call: UUID) {}
    func attach(_ invite: Invite, to call: UUID) {}
    func endUnlessInvited(_ call: UUID, within seconds: Int) {}
    func whenInvited(_ call: UUID, _ body: @escaping (Invite?) -> Void) {}
}
