/// Why push parameters in a contact or in an app's report are refused.
///
/// The daemon writes the ``sentence`` into a Warning, into HTTP answers and into the log. The ``sentence`` about a
/// token's problem contains no text from a phone.
package enum TokenProblem: Hashable, Sendable, CaseIterable {
    /// The value of `pn-provider` is unknown to the daemon.
    case unknownProvider
    /// The daemon knows the provider, but the provider is switched off or not configured.
    case providerOff
    /// The push token's app belongs to a different domain (`tenants.*.push-apps`).
    case otherDomain
    case appleParamMissing, appleTopic, appleTeam, appleToken
    case googleParamMissing, googleProject, googleToken
    case webPushResource
    /// The daemon sends no pushes to the host, the port, or the form of the URL.
    case webPushHost
    /// The subscription is at a host that the phone has chosen, and the contact has no keys for payloads.
    case webPushKeys
    /// The devices of the user are at too many hosts that phones have chosen.
    case webPushHostCount
    case acrobitsParamMissing, acrobitsToken
    case httpParamMissing, httpApp, httpToken
    case ruStoreParamMissing, ruStoreProject, ruStoreToken
    case hmsParamMissing, hmsApp, hmsToken

    /// A sentence that says which push parameter is missing or wrong.
    package var sentence: StaticString {
        switch self {
        case .unknownProvider: "pn-provider names an unknown push provider"
        case .providerOff: "this push provider is switched off here"
        case .otherDomain: "the app of this push token belongs to another domain"
        case .appleParamMissing:
            "pn-param names no topic, and this server has more than one or none: expected TEAM.TOPIC"
        case .appleTopic: "pn-param names a topic that is not served here"
        case .appleTeam: "pn-param names a team that is not served here"
        case .appleToken: "pn-prid is not a token of APNs: expected at least 64 hexadecimal digits"
        case .googleParamMissing: "pn-param is missing, and this server has several FCM projects"
        case .googleProject: "pn-param names an FCM project that is not served here"
        case .googleToken: "pn-prid is not a token of FCM: expected letters, digits, colon, hyphen and underscore"
        case .webPushResource: "pn-prid is not an https URL of a push service that is served here"
        case .webPushHost:
            "pn-prid names no push server that can be used here: expected https://NAME.DOMAIN/ at port 443 or another allowed port"
        case .webPushKeys: "pn-param has no keys of the subscription: expected P256DH.AUTH in base64url"
        case .webPushHostCount: "this user has devices at four other push servers already"
        case .acrobitsParamMissing: "pn-param is missing: expected the app id"
        case .acrobitsToken: "pn-prid is not a token of Acrobits, or pn-param does not fit it"
        case .httpParamMissing: "pn-param is missing: expected the name of an app"
        case .httpApp: "pn-param names an app that is not served here"
        case .httpToken: "pn-prid is not a token: expected UTF-8 without control characters"
        case .ruStoreParamMissing: "pn-param is missing, and this server has several RuStore projects"
        case .ruStoreProject: "pn-param names a RuStore project that is not served here"
        case .ruStoreToken: "pn-prid is not a token of RuStore: expected at most 1024 bytes of ASCII without spaces"
        case .hmsParamMissing: "pn-param is missing, and this server has several Huawei apps"
        case .hmsApp: "pn-param names a Huawei app that is not served here"
        case .hmsToken: "pn-prid is not a token of Huawei: expected at most 1024 bytes of ASCII without spaces"
        }
    }

    /// The advice to the operator, if contacts that were accepted earlier now have the problem.
    package var cure: StaticString {
        switch self {
        case .unknownProvider: "nothing: this daemon cannot push to it"
        case .providerOff: "sippushd provider enable"
        case .otherDomain: "see push-apps of the domains under tenants"
        case .appleParamMissing: "list exactly one topic, or let the app send pn-param"
        case .appleTopic: "add the topic to push.apns.topics or to one of push.apns.apps"
        case .appleTeam: "see push.apns.team-id"
        case .googleParamMissing: "let the app send pn-param"
        case .googleProject: "add the value to push.fcm.params or to one of push.fcm.apps"
        case .webPushResource: "see push.webpush.hosts"
        case .webPushHost: "see push.webpush.any-host-ports and push.webpush.private-hosts"
        case .webPushKeys:
            "let the app send the keys of its subscription in pn-param (docs/App-developers.md)"
        case .webPushHostCount: "remove old devices of the user with device remove"
        case .acrobitsParamMissing, .httpParamMissing, .ruStoreParamMissing, .hmsParamMissing:
            "let the app send pn-param"
        case .httpApp: "see push.http.apps"
        case .ruStoreProject: "add the project to push.rustore.apps"
        case .hmsApp: "add the app to push.hms.apps"
        case .appleToken, .googleToken, .acrobitsToken, .httpToken, .ruStoreToken, .hmsToken:
            "such a token cannot be pushed: the app must register another one, or remove it with device remove"
        }
    }
}
