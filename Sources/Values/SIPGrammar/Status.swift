/// A status code, with the reason phrase that the daemon writes.
package struct Status: Hashable, Sendable, ExpressibleByIntegerLiteral, CustomStringConvertible {
    package let code: UInt16

    /// Written by hand, because the compiler's own `==` is slower in other modules.
    @inlinable
    package static func == (left: Status, right: Status) -> Bool { left.code == right.code }

    package init(code: UInt16) { self.code = code }
    package init(integerLiteral value: UInt16) { code = value }

    package var isProvisional: Bool { code < 200 }
    package var isFinal: Bool { code >= 200 }
    package var isSuccess: Bool { (200..<300).contains(code) }
    /// The first digit of the status code, such as 4 for 404.
    package var statusClass: UInt16 { code / 100 }

    package var description: String { "\(code)" }

    package static let trying: Status = 100
    package static let ok: Status = 200
    package static let movedTemporarily: Status = 302
    package static let badRequest: Status = 400
    package static let unauthorized: Status = 401
    package static let forbidden: Status = 403
    package static let notFound: Status = 404
    package static let proxyAuthenticationRequired: Status = 407
    package static let requestTimeout: Status = 408
    package static let badExtension: Status = 420
    package static let intervalTooBrief: Status = 423
    /// 430 Flow Failed: the connection to a phone was closed (RFC 5626 section 5.3.1).
    package static let flowFailed: Status = 430
    /// 439 First Hop Lacks Outbound Support: the first proxy does not support RFC 5626.
    package static let firstHopLacksOutbound: Status = 439
    package static let maxBreadthExceeded: Status = 440
    package static let temporarilyUnavailable: Status = 480
    package static let callDoesNotExist: Status = 481
    package static let loopDetected: Status = 482
    package static let tooManyHops: Status = 483
    package static let busyHere: Status = 486
    package static let requestTerminated: Status = 487
    package static let serverError: Status = 500
    package static let badGateway: Status = 502
    package static let serviceUnavailable: Status = 503
    package static let pushNotSupported: Status = 555

    /// The reason phrase from the RFC that defines the code.
    package var reasonPhrase: StaticString {
        switch code {
        case 100: "Trying"
        case 180: "Ringing"
        case 200: "OK"
        case 202: "Accepted"
        case 302: "Moved Temporarily"
        case 400: "Bad Request"
        case 401: "Unauthorized"
        case 403: "Forbidden"
        case 404: "Not Found"
        case 405: "Method Not Allowed"
        case 407: "Proxy Authentication Required"
        case 408: "Request Timeout"
        case 410: "Gone"
        case 413: "Request Entity Too Large"
        case 414: "Request-URI Too Long"
        case 416: "Unsupported URI Scheme"
        case 420: "Bad Extension"
        case 423: "Interval Too Brief"
        case 430: "Flow Failed"
        case 440: "Max-Breadth Exceeded"
        case 480: "Temporarily Unavailable"
        case 481: "Call/Transaction Does Not Exist"
        case 482: "Loop Detected"
        case 483: "Too Many Hops"
        case 486: "Busy Here"
        case 487: "Request Terminated"
        case 500: "Server Internal Error"
        case 502: "Bad Gateway"
        case 503: "Service Unavailable"
        case 505: "Version Not Supported"
        case 513: "Message Too Large"
        case 600: "Busy Everywhere"
        case 603: "Decline"
        case 604: "Does Not Exist Anywhere"
        case 555: "Push Notification Service Not Supported"
        default: "Unknown"
        }
    }
}
