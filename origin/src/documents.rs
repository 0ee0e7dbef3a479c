//! What programs send and are answered: the JSON documents, from which the OpenAPI document is made.

use serde::Serialize;
use utoipa::openapi::RefOr;
use utoipa::openapi::schema::{AdditionalProperties, Object, ObjectBuilder, Schema, Type};
use utoipa::{PartialSchema, ToSchema};

use crate::checkout::{Hold, Payment};
use crate::model::Kind;

/// A word out of a few.
macro_rules! word {
    ($word:ty, $name:literal, $description:literal) => {
        impl PartialSchema for $word {
            fn schema() -> RefOr<Schema> {
                let words = <$word>::ALL.into_iter().map(|word| word.as_str());
                ObjectBuilder::new()
                    .schema_type(Type::String)
                    .description(Some($description))
                    .enum_values(Some(words))
                    .into()
            }
        }

        impl ToSchema for $word {
            fn name() -> std::borrow::Cow<'static, str> {
                $name.into()
            }
        }

        impl Serialize for $word {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(self.as_str())
            }
        }
    };
}

word!(
    Hold,
    "ReservationState",
    "Where a reservation stands. It keeps its units while `held`, `paying` or `capturing`."
);
word!(
    Payment,
    "PurchaseState",
    "Where a payment stands. It is settled when `sold`, `declined`, `voided` or `refunded`."
);
word!(Kind, "ProductKind", "What the units of a product are: one like the other, or each with a label.");

/// A product, what is left of it, and the visitor's reservation of it.
#[derive(Debug, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = Product)]
pub(crate) struct ProductDocument {
    /// Its name in addresses.
    pub id: String,
    /// Its name for people.
    pub name: String,
    /// A sentence or two.
    pub description: String,
    /// Price of one unit in the currency's minor unit.
    pub price_minor: i64,
    /// ISO 4217 code.
    pub currency: String,
    /// The most one visitor may hold.
    pub max_quantity: i64,
    /// What its units are.
    pub kind: Kind,
    /// Whether its sale is stopped for now.
    pub stopped: bool,
    /// Units that can be reserved.
    pub available: i64,
    /// Units in reservations that are not paid yet, and may come back.
    pub held: i64,
    /// The visitor's live or paid reservation of it.
    #[schema(required = true)]
    pub reservation: Option<ReservationDocument>,
    /// Of numbered units, the labels of the next that are free.
    #[schema(required = true)]
    pub next_free: Option<Vec<String>>,
    /// Where to go on.
    pub links: ProductLinks,
}

/// Where to go on from a product.
#[derive(Debug, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ProductLinks {
    /// The product.
    #[serde(rename = "self")]
    pub this: String,
    /// Where to reserve.
    pub reservations: String,
}

/// A reservation.
#[derive(Debug, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = Reservation)]
pub(crate) struct ReservationDocument {
    /// Unguessable.
    pub id: String,
    /// The product.
    pub product: String,
    /// How many units.
    pub quantity: i64,
    /// Price of all units, fixed when the reservation was made, in the currency's minor unit.
    pub amount_minor: i64,
    /// ISO 4217 code.
    pub currency: String,
    /// Where it stands.
    pub state: Hold,
    /// Unix milliseconds.
    pub created_at: i64,
    /// Unix milliseconds; a reservation that is held or paying ends here.
    pub expires_at: i64,
    /// Whether its time has been extended.
    pub extended: bool,
    /// Milliseconds until it ends, while it has an end; only where it was looked at this moment.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub time_left_ms: Option<i64>,
    /// The labels of numbered units.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schema(required = false)]
    pub units: Vec<String>,
    /// Where to go on.
    pub links: ReservationLinks,
}

/// Where to go on from a reservation.
#[derive(Debug, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ReservationLinks {
    /// The reservation.
    #[serde(rename = "self")]
    pub this: String,
    /// The checkout page.
    pub checkout: String,
    /// Where to pay; not once the units are certain.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub purchases: Option<String>,
    /// Where to have more time; not once the units are certain.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub extension: Option<String>,
    /// The last payment for it, where the reservation or the purchase was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub purchase: Option<String>,
}

/// A purchase.
#[derive(Debug, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = Purchase)]
pub(crate) struct PurchaseDocument {
    /// Unguessable.
    pub id: String,
    /// Where it stands.
    pub state: Payment,
    /// Why it was refused, in words for the shopper.
    #[schema(required = true)]
    pub reason: Option<String>,
    /// In the currency's minor unit.
    pub amount_minor: i64,
    /// ISO 4217 code.
    pub currency: String,
    /// Unix milliseconds.
    pub created_at: i64,
    /// What is paid for.
    pub reservation: ReservationDocument,
    /// What the shopper has to do, while that is so.
    #[schema(required = true)]
    pub next_action: Option<NextAction>,
    /// Where to go on.
    pub links: PurchaseLinks,
}

/// What the shopper has to do.
#[derive(Debug, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct NextAction {
    /// Where to confirm the payment.
    pub redirect_to: String,
}

/// Where to go on from a purchase.
#[derive(Debug, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct PurchaseLinks {
    /// The purchase.
    #[serde(rename = "self")]
    pub this: String,
}

/// The service is well.
#[derive(Debug, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Healthy {
    /// `ok`
    #[schema(pattern = "^ok$")]
    pub status: &'static str,
}

/// A webhook was taken.
#[derive(Debug, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Received {
    /// Always true.
    pub received: bool,
}

/// What every problem document has (RFC 9457), and a code.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Basics {
    /// `urn:ropeline:problem:` and the code.
    #[serde(rename = "type")]
    #[schema(pattern = "^urn:ropeline:problem:[a-z_]+$")]
    pub kind: String,
    /// For people, the same for every problem of this code.
    pub title: String,
    /// The HTTP status.
    #[schema(minimum = 400, maximum = 599)]
    pub status: u16,
    /// For people: what happened, and what to do.
    pub detail: String,
    /// For programs.
    #[schema(pattern = "^[a-z_]+$")]
    pub code: String,
}

/// What a problem document has beyond that, by its code.
#[derive(Debug, Default, Serialize, ToSchema)]
pub(crate) struct Members {
    /// Seconds after which to try again.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub retry_after_s: Option<u32>,
    /// Units that can be reserved.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub available: Option<i64>,
    /// Units that may come back.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub held: Option<i64>,
    /// The address of the reservation that it is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub reservation: Option<String>,
    /// The address of the purchase that it is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub purchase: Option<String>,
    /// The most one visitor may hold of the product.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub max_quantity: Option<i64>,
    /// The most one visitor may hold and own of everything together.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub units_per_visitor: Option<i64>,
    /// What the visitor holds and owns.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub has: Option<i64>,
    /// Labels that the product does not have.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub unknown: Option<Vec<String>>,
    /// Labels of units that are somebody else's.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub taken: Option<Vec<String>>,
}

/// A problem document: [`Basics`] and [`Members`] in one.
#[derive(Debug)]
pub(crate) struct Problem;

fn object<T: PartialSchema>() -> Object {
    match T::schema() {
        RefOr::T(Schema::Object(object)) => object,
        _ => Object::new(),
    }
}

impl PartialSchema for Problem {
    fn schema() -> RefOr<Schema> {
        let mut problem = object::<Basics>();
        problem.properties.extend(object::<Members>().properties);
        problem.additional_properties = Some(Box::new(AdditionalProperties::FreeForm(false)));
        problem.description = Some("A problem document (RFC 9457).".to_owned());
        problem.into()
    }
}

impl ToSchema for Problem {}
