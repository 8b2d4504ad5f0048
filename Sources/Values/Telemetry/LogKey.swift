/// The names of all fields that log lines can have.
package enum LogKey: String, CaseIterable, Sendable {
    // The fields that say who acts, and where.
    case aor
    case user
    case device
    case source
    case listener
    case target
    case transport

    // The log fields that identify the call.
    case callID = "call-id"
    case method
    case caller
    case realm

    // The fields that say how a request or call went.
    case code
    case status
    case outcome
    case reason
    case advice
    case error
    case attempt
    case duration
    case count
    case suppressed
    case bytes

    // The log fields about the HTTP API.
    case apiKey = "api-key"
    case route
    case object

    // The fields about pushes.
    case provider
    case topic
    case token
    case payload

    // The fields about the program itself.
    case version
    case path
    case date
    case setting
}
