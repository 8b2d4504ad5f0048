import SIPGrammar

/// State of dialogs that their tokens do not carry.
package struct Dialogs {
    /// Marks this run of the program in dialog tokens, because connection numbers are not valid in other runs.
    package let run: UInt32
    /// When renewed dialogs end.
    package var renewals = DialogRenewals()
    package var provedPlaces = ProvedPlaces()
    package var devices = DialogDevices()

    package init(run: UInt32) { self.run = run }
}
